package event

import "testing"

func TestHops(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  int
	}{
		{nil, 0}, {[]string{""}, 0}, {[]string{"0"}, 0}, {[]string{"1"}, 1}, {[]string{"5"}, 5}, {[]string{"6"}, MaxHops},
		{[]string{"4294967295"}, MaxHops},
		{[]string{"99999999999999999999"}, 0}, {[]string{"-1"}, 0}, {[]string{"x"}, 0}, {[]string{"1.5"}, 0},
		{[]string{"1", "3", "2"}, 3}, {[]string{"1, 4"}, 4},
		{[]string{"x,2"}, 2}, {[]string{" 2 "}, 2},
	} {
		if got := Hops(c.lines); got != c.want {
			t.Errorf("%q: %d, want %d", c.lines, got, c.want)
		}
	}
}

// An event of a loop is skipped for that reason, whatever its signature came to, until a replay delivers it.
func TestLoopIsSkipped(t *testing.T) {
	for _, v := range []Verdict{VerdictVerified, VerdictUnverified, VerdictObserved} {
		e := &Event{Verdict: v, Reason: SignatureMissing, Dests: []string{"dst_1"}}
		e.EndLoop(MaxHops - 1)
		if len(e.Dests) != 1 {
			t.Fatal("four deliveries are no loop")
		}
		e.EndLoop(MaxHops)
		if status, reason, _ := Summarize(e, nil); status != Skipped || reason != DeliveryLoop || e.Dests != nil {
			t.Errorf("%s: %s %s", v, status, reason)
		}
		if status, _, _ := Summarize(e, []Delivery{{Destination: "dst_1", Status: Delivered}}); status != Delivered {
			t.Errorf("%s: replayed it is %s", v, status)
		}
	}
}
