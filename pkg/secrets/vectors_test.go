package secrets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

func newLeaks(t testing.TB) *Scanner {
	t.Helper()
	s := must.Get(New(ForLeaks))(t)
	return s
}

// Each rule finds its credential, exactly and alone, in every context and every wrapper around it.
func TestEachRuleInEachContext(t *testing.T) {
	s := newLeaks(t)
	g := newGenerator(21)
	count, failed := 0, 0
	for i := range s.rules {
		r := &s.rules[i]
		for longest := range 2 {
			for c := range contexts {
				for w := range wrappers {
					if !fits(c, w) || longest > 0 && c+w > 4 || (i+c+w)%2 > 0 { // half of them, and each with some rule
						continue
					}
					count++
					name := []string{"note", "API_KEY"}[count%2]
					if r.Kind == KindAssign {
						name = g.name(r, count)
					}
					p := place(c, w, name, g.secret(r, longest > 0))
					if got := found(s, p.text()); got != r.ID+" "+p.secret+";" {
						if failed++; failed < 40 {
							t.Errorf("%s in %s in %s: found %s\nin %s", r.ID, contexts[c].name, wrappers[w].name, got, p.text())
						}
					}
				}
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d failed", failed, count)
	}
	if perRule := count / len(s.rules); perRule < 40 {
		t.Errorf("%d contexts a rule, want at least 40", perRule)
	}
}

// name returns a name of an assignment in one of the ways in which people write it.
func (g generator) name(r *Rule, way int) string {
	name := g.prefix(r)
	switch way % 4 {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return "my_" + name
	case 2:
		return strings.ReplaceAll(name, "_", "-")
	}
	return strings.ReplaceAll(name, "_", "")
}

func found(s *Scanner, text string) string {
	var out strings.Builder
	s.Scan([]byte(text), func(m Match) bool {
		fmt.Fprintf(&out, "%s %s;", m.Rule.ID, text[m.Start:m.End])
		return true
	})
	return out.String()
}
