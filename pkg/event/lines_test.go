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
	if got := event.LinesOf([]event.Field{{Name: "A", Value: "x\r\nB: y"}}); got != "A: x  B: y\n" {
		t.Errorf("%q", got)
	}
	if got := event.Lines("").Fields(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
