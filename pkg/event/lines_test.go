package event_test

import (
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

func TestLines(t *testing.T) {
	fields := []event.Field{{Name: "A", Value: "1: 2"}, {Name: "A", Value: ""}, {Name: "B", Value: "\xff"}}
	lines := event.LinesOf(fields)
	is.Equal(t, lines, "A: 1: 2\nA: \nB: \xff\n")
	is.Same(t, lines.Fields(), fields)
	for value, want := range map[string]event.Lines{
		"x\r\nB: y": "A: x  B: y\n", "x\nB: y": "A: x B: y\n", "x\rB: y": "A: x B: y\n", "\nB: y": "A:  B: y\n",
		"\rB: y": "A:  B: y\n",
	} {
		is.Equal(t, event.LinesOf([]event.Field{{Name: "A", Value: value}}), want, value)
	}
	if got := event.Lines("").Fields(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
