package config

import (
	"errors"
	"testing"

	leaks "github.com/eventrelay/relay/pkg/secrets"
)

func ownRule(id, prefix string) leaks.Custom {
	return leaks.Custom{ID: leaks.CustomPrefix + id, Name: "Key of " + id, Prefixes: []string{prefix}, Charset: "alnum",
		Min: 20, Max: 64, Left: "word", Right: "word", Severity: leaks.Medium}
}

// An account's own rules are the same on every node; each change counts, is audited and has another revision, also
// when two nodes make the first one at once.
func TestDetectionSettings(t *testing.T) {
	b := broker(t)
	one, two := node(t, b, Config{Node: "a"}), node(t, b, Config{Node: "b"})
	if rules, _ := one.CustomRules(); len(rules) != 0 || one.Settings().Detection.Version != 0 {
		t.Fatalf("settings of a new account: %+v", one.Settings())
	}
	add := func(n *testNode, r leaks.Custom) error {
		_, err := n.UpdateDetection(t.Context(), func(d *Detection) error {
			d.Rules, d.Version = append(d.Rules, r), 100
			return nil
		})
		return err
	}
	errs := make(chan error, 1)
	go func() { errs <- add(one, ownRule("one", "one_")) }()
	noError(t, errors.Join(add(two, ownRule("two", "two_")), <-errs))
	revisions := map[int64]bool{}
	for _, n := range []*testNode{one, two} {
		noError(t, n.Sync(t.Context()))
		d := n.Settings().Detection
		if len(d.Rules) != 2 || d.Version != 2 || d.Rule("custom:one") == nil || d.Rule("one") != nil {
			t.Errorf("node %s has %+v", n.cfg.Node, d)
		}
		_, revision := n.CustomRules()
		revisions[revision] = true
	}
	must(one.UpdateDetection(t.Context(), func(d *Detection) error { return nil }))(t)
	if _, revision := one.CustomRules(); len(revisions) != 1 || !revisions[revision] {
		t.Errorf("revisions %v, and %d after a change of nothing", revisions, revision)
	}
	refused := errors.New("refused")
	if _, err := one.UpdateDetection(t.Context(), func(*Detection) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if _, err := one.UpdateDetection(t.Context(), func(d *Detection) error { d.Rules = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	if d := one.Settings().Detection; d.Version != 3 || len(d.Rules) != 0 || d.UpdatedAt.IsZero() {
		t.Errorf("after all rules were removed: %+v", d)
	}
}
