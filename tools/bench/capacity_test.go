package bench

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// A node that has its roles in the command line is counted by itself.
func TestNodesAreCountedByRole(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo begun; read x; :", "relay", "--roles", "dispatch")
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	must.Get(out.Read(make([]byte, 1)))(t)
	if kind := processKind(cmd.Process.Pid); kind != nodeKinds[1] {
		t.Errorf("a node that dispatches is counted as %q, want %q", kind, nodeKinds[1])
	}
	_ = in.Close()
	_ = cmd.Wait()
	for i, roles := range capacityRoles {
		if nodeKinds[i] != "relay "+roles {
			t.Errorf("the node with the roles %s is counted as %s", roles, nodeKinds[i])
		}
	}
}

func TestCapacityMisuseIsNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                              "--kafka: is missing",
		"--kafka h:1 --serve 2":         "--serve: 2 is out of range",
		"--kafka h:1 --destinations 17": "--destinations: 17 is out of range, use 1 to 16",
		"--kafka h:1 --failing 91":      "--failing: 91 is out of range, use 0 to 90",
		"--kafka h:1 --replicas 10":     "--replicas: 10 is out of range, use 1 to 9",
		"--replicas 3":                  "--replicas: use it with --kafka",
	} {
		_, _, err := runScenario(t, "capacity", strings.Fields(args)...)
		var misuse MisuseError
		if !errors.As(err, &misuse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
