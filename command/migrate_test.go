package command

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

// relay migrate --finalize says what it did, and that there was nothing to do.
func TestFinalizeSaysWhatItDid(t *testing.T) {
	for want, m := range map[string]migration{
		"from level 3 to 4; steps of the tables that ran: 1": {before: 3, Level: 4, Ran: []string{"0004_old_ends.final"}},
		"at level 4, the newest, already; no step":           {before: 4, Level: 4},
		"the configuration log is empty; no step":            {},
	} {
		if got := m.finalized(); !strings.HasPrefix(got, "finalized: ") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Tables that a running node of another version may need are not dropped.
func TestFinalStepsWaitForOlderNodes(t *testing.T) {
	nodes := []config.Node{{Name: "a", Version: "2"}, {Name: "b", Version: "1"}}
	m := migration{Waiting: []string{"0004_old_ends.final"}}
	is.Failed(t, m.refuseOthers(nodes, "2"), "node b runs version 1")
	is.OK(t, m.refuseOthers(nodes[:1], "2"))
	if err := (&migration{}).refuseOthers(nodes, "2"); err != nil {
		t.Error("nothing is dropped:", err)
	}
}
