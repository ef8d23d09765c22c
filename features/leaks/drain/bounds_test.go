package drain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/test/is"
)

// 10,000 made-up keys make a bounded number of findings and one finding flood; known findings are outside the bound.
func TestFloodIsBounded(t *testing.T) {
	w := newWorld(t)
	w.post(202, leakedKey(0))
	known := w.Only().Finding
	w.Known[known] = true
	for from := 0; from < 10_000; from += 500 {
		var body strings.Builder
		for i := range 500 {
			body.WriteString(leakedKey(1+from+i) + "\n")
		}
		w.post(202, body.String())
	}
	w.post(202, "again "+leakedKey(0))
	findings, total, floods := map[string]bool{}, 0, map[string]int{}
	for _, h := range w.Hits() {
		findings[h.Finding] = true
		total += int(h.N)
		if h.Rule == finding.RuleFlood {
			floods[h.Finding] += int(h.N)
			if h.Severity != finding.High || h.Location.Label != "production" {
				t.Errorf("%+v", h)
			}
		}
	}
	if len(findings) != newFindings.Severe+newFindings.OfRule+1 || total != 10_002 || len(floods) != 1 {
		t.Errorf("%d findings, %d secrets, floods %v", len(findings), total, floods)
	}
}

// A drain gets new findings only up to its room in the account.
func TestOutstandingFindingsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.room = map[finding.Severity]int{finding.High: 1}
	w.post(202, leakedKey(1)+"\n"+leakedKey(2)+"\n"+leakedKey(1))
	all := w.Hits()
	if len(all) != 2 || all[0].N != 2 || all[1].Rule != finding.RuleFlood || all[1].N != 1 {
		t.Errorf("%d hits, the last %+v", len(all), all[len(all)-1])
	}
}

// leaks returns n made-up secrets of a rule, one a line: of Stripe, or low and of its test mode.
func leaks(from, n int, test bool) string {
	var body strings.Builder
	for i := range n {
		text := leakedKey(from + i)
		if test {
			text = strings.Replace(text, "_li"+"ve_", "_te"+"st_", 1)
		}
		body.WriteString(text + "\n")
	}
	return body.String()
}

// github returns a made-up token of another rule than leak.
func github(n int) string { return "gh" + "p_" + strings.Repeat(leakedKey(n)[8:], 2)[:36] }

// rules counts the findings of each rule, and names what our own keys are.
func (w *world) rules() string {
	w.TB.Helper()
	findings := map[string]string{}
	for _, h := range w.Hits() {
		findings[h.Finding] = h.Rule + " " + h.KeyID
	}
	count := map[string]int{}
	for _, name := range findings {
		count[strings.TrimSpace(name)]++
	}
	return fmt.Sprint(count)
}

// However many keys somebody makes up, one of our own has a finding of its own, and so has the first secret of another
// rule; secrets of low severity do not use up the room of severe ones.
func TestFakesHideNothing(t *testing.T) {
	for _, c := range []struct {
		name          string
		requests      int
		severe, minor int // findings of the made-up keys
	}{
		{"many requests", 4, newFindings.Severe + newFindings.OfRule, newFindings.Minor + newFindings.OfRule},
		{"one request", 1, newFindings.Severe - 1 + newFindings.OfRule, 0}, // the token of GitHub is among the first
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			ours := apikey.New()
			w.AddKey(ours, &config.Key{ID: "key_1"})
			body, n := "", 2000/c.requests
			for request := range c.requests {
				if body = leaks(request*n, n, false) + leaks(request*n, n, true); c.requests > 1 {
					w.post(202, body)
					body = ""
				}
			}
			w.post(202, body+ours+"\n"+github(1)+"\n"+leakedKey(1))
			want := fmt.Sprintf("map[flood:1 github-token:1 relay-api-key key_1:1 stripe-secret-live:%d", c.severe)
			if c.minor > 0 {
				want += fmt.Sprintf(" stripe-secret-test:%d", c.minor)
			}
			if got := w.rules(); got != want+"]" {
				t.Errorf("findings %s, want %s", got, want)
			}
			total := 0
			for _, h := range w.Hits() {
				total += int(h.N)
			}
			is.Equal(t, total, 4003, "secrets are counted")
		})
	}
}

// Also without any room in the account one of our own keys has a finding.
func TestOwnKeysNeedNoRoom(t *testing.T) {
	w := newWorld(t)
	w.room = map[finding.Severity]int{}
	ours := apikey.New()
	w.AddKey(ours, &config.Key{ID: "key_1"})
	w.post(202, leaks(0, 20, false)+ours)
	is.Equal(t, w.rules(), "map[flood:1 relay-api-key key_1:1]", "findings")
}

// Of more secrets than are hashed in one request, the first ones of another rule still are.
func TestMatchesOfARequestAreBounded(t *testing.T) {
	w := newWorld(t)
	ours := apikey.New()
	w.AddKey(ours, &config.Key{ID: "key_1"})
	w.post(202, strings.Repeat(leakedKey(1)+"\n", maxMatches+maxMatchesOfRule+5)+ours)
	all, most := w.Hits(), uint32(maxMatches+maxMatchesOfRule)
	if len(all) != 3 || all[0].N != most || all[1].KeyID != "key_1" || all[2].Rule != finding.RuleFlood || all[2].N != 5 {
		t.Errorf("%d hits: %+v", len(all), all)
	}
}

// The hits of a request that get a record depend on its body alone: sent again, they count once.
func TestEvictedHitsAreTheSameEachTime(t *testing.T) {
	w := newWorld(t)
	var body strings.Builder
	for i := range 400 {
		body.WriteString(leakedKey(i) + "\n" + strings.Replace(leakedKey(i), "_li"+"ve_", "_te"+"st_",
			1) + "\n" + github(i) + "\n")
		fmt.Fprintf(&body, `{"app":"a%d","m":"%s"}`+"\n", i, github(i/2))
	}
	w.post(202, body.String())
	want := len(w.Hits())
	w.post(202, body.String())
	is.Equal(t, len(w.Hits()), want, "%d hits, after the second request", want)
}
