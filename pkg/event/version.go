package event

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Version orders the outcomes of one delivery: the largest one is current. It is
// run_ms << 80 | rank << 64 | offset + 1, in two halves. The zero value is below every outcome.
//
// run_ms is the time inside the id of the run, run_… or rec_…. Automatic attempts have no run and count as 0, below
// every run. Within a run the rank puts delivered above failed and skipped, and these above open states. The 1
// separates the first outcome of a partition from a command, which has the offset -1.
//
// A delivered outcome uses the later of run_ms and the time of its delivery. Otherwise a delivery that succeeds
// automatically after a replay of the same event failed would stay failed for ever. That time is in the record, so
// reading the record again yields the same version.
type Version struct{ Hi, Lo uint64 }

// Ranks of a version. Delivered is the highest: within a run a delivered delivery stays delivered.
const (
	rankOpen uint64 = iota
	rankEnded
	rankDelivered
)

// Compare is negative when v is older than w.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Hi, w.Hi), cmp.Compare(v.Lo, w.Lo))
}

// Big returns the version as one number, the form that the store keeps.
func (v Version) Big() *big.Int {
	b := new(big.Int).SetUint64(v.Hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(v.Lo))
}

// VersionOf is the inverse of Big.
func VersionOf(b *big.Int) Version {
	lo := new(big.Int).And(b, new(big.Int).SetUint64(math.MaxUint64))
	return Version{Hi: new(big.Int).Rsh(b, 64).Uint64(), Lo: lo.Uint64()}
}

// Version returns the version of the outcome when its record has this offset in the topic outcomes.
func (o *Outcome) Version(offset int64) (Version, error) {
	return versionOf(o.Run, o.Status, o.At, offset)
}

// QueuedVersion returns the version of a run's command before it has an outcome: the lowest of its run.
func QueuedVersion(run string) (Version, error) { return versionOf(run, Pending, time.Time{}, -1) }

func versionOf(run string, status Status, at time.Time, offset int64) (Version, error) {
	var ms, rank uint64
	switch {
	case status == Delivered:
		rank, ms = rankDelivered, uint64(max(at.UnixMilli(), 0))
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
