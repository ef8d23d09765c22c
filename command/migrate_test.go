package command

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
)

// Tables that a running node of another version may need are not dropped.
func TestFinalStepsWaitForOlderNodes(t *testing.T) {
	nodes := []config.Node{{Name: "a", Version: "2"}, {Name: "b", Version: "1"}}
	m := migration{Waiting: []string{"0004_old_ends.final"}}
	if err := m.refuseOthers(nodes, "2"); err == nil || !strings.Contains(err.Error(), "node b runs version 1") {
		t.Error(err)
	}
	if err := m.refuseOthers(nodes[:1], "2"); err != nil {
		t.Error(err)
	}
	if err := (&migration{}).refuseOthers(nodes, "2"); err != nil {
		t.Error("nothing is dropped:", err)
	}
}
