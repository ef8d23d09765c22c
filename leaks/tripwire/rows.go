package tripwire

import (
	"crypto/rand"
	"maps"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
)

// maxRows is how many uses of a tripwire in a UTC day have a row of their own in the store, on each node. Then all uses
// in a minute share one, on all nodes together: the row counts one, whatever the minute had.
const maxRows = 100

// rows gives hits their ids, which decide what shares a row.
type rows struct {
	mu   sync.Mutex
	date string         // UTC day
	n    map[string]int // rows of each tripwire in that day
}

// hitID returns Hit.ID for a use.
func (x *rows) hitID(tripwire string, at time.Time) [16]byte {
	if !x.take(tripwire, at.Format(time.DateOnly)) {
		return finding.HitID(tripwire, "minute "+at.Truncate(time.Minute).Format(time.RFC3339), 0)
	}
	var random [16]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return finding.HitID(tripwire, string(random[:]), 0)
}

// take reports whether the day of a tripwire has a row left, and takes it.
func (x *rows) take(tripwire, date string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.date != date {
		x.date, x.n = date, map[string]int{}
	}
	if x.n[tripwire] == maxRows {
		return false
	}
	x.n[tripwire]++
	return true
}

// tests remembers the tests that were used on this node, until the configuration says so.
type tests struct {
	mu   sync.Mutex
	used map[string]config.TripwireTest // by tripwire: the newest
}

// take reports whether a test was not used before, and takes it.
func (x *tests) take(tripwire string, test config.TripwireTest) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.used, func(_ string, old config.TripwireTest) bool { return test.Until.Sub(old.Until) > time.Hour })
	if x.used[tripwire] == test {
		return false
	}
	x.used[tripwire] = test
	return true
}
