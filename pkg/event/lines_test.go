package event_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
)

func TestLines(t *testing.T) {
	fields := []event.Field{{Name: "A", Value: "1: 2"}, {Name: "A", Value: ""}, {Name: "B", Value: "\xff"}}
	lines := event.LinesOf(fields)
	if lines != "A: 1: 2\nA: \nB: \xff\n" {
		t.Errorf("%q", lines)
	}
	if d := cmp.Diff(fields, lines.Fields()); d != "" {
		t.Error(d)
	}
	for value, want := range map[string]event.Lines{
		"x\r\nB: y": "A: x  B: y\n", "x\nB: y": "A: x B: y\n", "x\rB: y": "A: x B: y\n", "\nB: y": "A:  B: y\n",
		"\rB: y": "A:  B: y\n",
	} {
		if got := event.LinesOf([]event.Field{{Name: "A", Value: value}}); got != want {
			t.Errorf("%q: %q", value, got)
		}
	}
	if got := event.Lines("").Fields(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
