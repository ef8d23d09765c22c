package intake

import (
	"errors"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// Each bound holds by itself. What nothing belongs to any more is forgotten.
func TestSlots(t *testing.T) {
	var s Slots
	errNode, errSender := errors.New("node"), errors.New("sender")
	enter := func(sender string, want error) (turn chan struct{}, leave func()) {
		t.Helper()
		turn, leave, err := s.Enter(Bound{sender, 2, errSender}, Bound{0, 3, errNode})
		must.ErrorIs(t, err, want, sender)
		return turn, leave
	}
	a, leaveA := enter("a", nil)
	same, leaveSame := enter("a", nil)
	enter("a", errSender)
	b, leaveB := enter("b", nil)
	enter("b", errNode)
	if a != same || a == b {
		t.Error("the turn is not that of the sender")
	}
	leaveA()
	_, leaveA = enter("a", nil)
	leaveA()
	leaveSame()
	leaveB()
	if len(s.of) > 0 {
		t.Errorf("left in memory: %v", s.of)
	}
}
