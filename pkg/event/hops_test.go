package event

import (
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

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
		is.Equal(t, Hops(c.lines), c.want, c.lines)
	}
}

// An event in a loop is skipped with the reason delivery_loop, whatever its verdict is, until a replay delivers it.
func TestEventInALoopIsSkipped(t *testing.T) {
	for _, v := range []Verdict{VerdictVerified, VerdictUnverified, VerdictObserved} {
		e := &Event{Verdict: v, Reason: SignatureMissing, Dests: []string{"dst_1"}}
		after := func(hops int) []Field { return []Field{{Name: HeaderHops, Value: strconv.Itoa(hops)}} }
		e.Header = after(MaxHops - 1)
		e.SkipIfLoop("ep_a")
		must.Equal(t, len(e.Dests), 1, "an event with four earlier deliveries counts as a loop")
		e.Header = after(MaxHops)
		e.SkipIfLoop("ep_a")
		if status, reason, _ := Summarize(e, nil); status != Skipped || reason != DeliveryLoop || e.Dests != nil {
			t.Errorf("%s: %s %s", v, status, reason)
		}
		if status, _, _ := Summarize(e, []Delivery{{Destination: "dst_1", Status: Delivered}}); status != Delivered {
			t.Errorf("%s: after a replay the status is %s", v, status)
		}
	}
}

// An event may return once to an endpoint of its path. A path of different endpoints is limited by MaxHops only.
func TestSecondReturnToAnEndpointIsALoop(t *testing.T) {
	for _, c := range []struct {
		path []string
		loop bool
	}{
		{nil, false}, {[]string{""}, false}, {[]string{"ep_b"}, false}, {[]string{"ep_a"}, false},
		{[]string{"ep_a,ep_a"}, true},
		{[]string{"ep_a, ep_b"}, false}, {[]string{"ep_a", "ep_a"}, true}, {[]string{"ep_b,ep_b,ep_a"}, true},
		{[]string{"ep_a,ep_b,ep_a,ep_b"}, true}, {[]string{"ep_b,ep_c,ep_d,ep_e"}, false},
		{[]string{strings.Repeat("x", maxEndpointID+1) + ",ep_a"}, false},
	} {
		e := &Event{Dests: []string{"dst_1"}, Header: []Field{{Name: HeaderHops, Value: "1"}}}
		for _, line := range c.path {
			e.Header = append(e.Header, Field{Name: HeaderPath, Value: line})
		}
		if e.SkipIfLoop("ep_a"); (e.Reason == DeliveryLoop) != c.loop {
			t.Errorf("%q: %q", c.path, e.Reason)
		}
	}
	is.List(t, Path([]string{"1,2,3,4", "5, 6"}), []string{"2", "3", "4", "5", "6"}, "the end of a long path")
	longest := strings.Repeat("x", maxEndpointID)
	is.List(t, Path([]string{"a,,b, ," + longest + "x," + longest}), []string{"a", "b", longest},
		"the names of the path are")
}
