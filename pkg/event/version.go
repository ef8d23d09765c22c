package event

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Version orders what is said about one delivery: the larger one counts. It is
// run_ms << 80 | rank << 64 | offset + 1, in two halves. The zero value is below every word.
//
// The milliseconds come from the time inside the id of the run, run_… or rec_…; the automatic chain has no
// run and counts as 0, below every run. The rank lets delivered win over failed and skipped within a run,
// and these over what is still open. The 1 keeps the first outcome of a partition apart from a command,
// which stands at -1.
//
// What was delivered counts from the moment of its proof, if that is later than the run began: a chain
// that delivers after a replay of the same event had failed must not be called failed for ever. The
// moment stands in the record, so reading it again gives the same version.
type Version struct{ Hi, Lo uint64 }

// Ranks of a version. Delivered is the highest: within a run nothing moves away from it.
const (
	rankOpen uint64 = iota
	rankEnded
	rankDelivered
)

// Compare is negative when v is older than w.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Hi, w.Hi), cmp.Compare(v.Lo, w.Lo))
}

// Big is the version as the one number that the store keeps.
func (v Version) Big() *big.Int {
	b := new(big.Int).SetUint64(v.Hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(v.Lo))
}

// Version is that of the outcome at an offset of the topic outcomes.
func (o *Outcome) Version(offset int64) (Version, error) {
	return versionOf(o.Run, o.Status, o.At, offset)
}

// QueuedVersion is that of a run's command, before anything came of it: the lowest of its run.
func QueuedVersion(run string) (Version, error) { return versionOf(run, Pending, time.Time{}, -1) }

func versionOf(run string, status Status, at time.Time, offset int64) (Version, error) {
	var ms, rank uint64
	switch {
	case status == Delivered:
		rank = rankDelivered
		if !at.IsZero() {
			ms = uint64(max(at.UnixMilli(), 0))
		}
	case status.Terminal():
		rank = rankEnded
	}
	if run != "" {
		prefix, _, _ := strings.Cut(run, "_")
		r, err := id.Parse(prefix+"_", run)
		if err != nil {
			return Version{}, fmt.Errorf("read run %q: %w", run, err)
		}
		ms = max(ms, uint64(r.UnixMilli()))
	}
	return Version{Hi: ms<<16 | rank, Lo: uint64(offset + 1)}, nil
}
