//go:build faults

package dispatcher

import "github.com/eventrelay/relay/pkg/crash"

const faultsBuilt = crash.Built

// faults kills the process at a named point, for tests; see package crash.
type faults struct{}

func newFaults() *faults { return &faults{} }

func (*faults) crashAt(point string) { crash.At(point) }
