package tripwire

import (
	"crypto/rand"
	"maps"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
)

// maxRows is how many uses of a tripwire in a UTC day have a row of their own in the store, on each node. Then all uses
// in a minute share one, on all nodes together: the row counts one, whatever the minute had.
const maxRows = 100

// rows gives hits their ids, which decide what shares a row.
type rows struct {
	mu   sync.Mutex
	date string          // UTC day
	of   map[string]*day // by finding: tests do not count as uses
}

// day is what a finding's hits have had in a day.
type day struct {
	rows   int
	minute string // the last one whose shared row has a hit of a use in the topic events
}

// hitID returns Hit.ID of a hit. event is the record of its use in the topic events, empty if there is none: a record
// that is read again gets the same row. isNew is false if an earlier use of such records has the row already.
func (x *rows) hitID(h *finding.Hit, event string) (hitID [16]byte, isNew bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if date := h.At.Format(time.DateOnly); date > x.date { // a record that is read late counts in the present day
		x.date, x.of = date, map[string]*day{}
	}
	of := x.of[h.Finding]
	if of == nil {
		of = &day{}
		x.of[h.Finding] = of
	}
	if of.rows < maxRows {
		of.rows++
		if event == "" {
			var random [16]byte
			rand.Read(random[:]) // never fails: crypto/rand ends the process instead
			event = string(random[:])
		}
		return finding.HitID(h.Location.TripwireID, event, 0), true
	}
	minute := "minute " + h.At.Truncate(time.Minute).Format(time.RFC3339)
	if isNew = event == "" || of.minute != minute; event != "" {
		of.minute = minute
	}
	return finding.HitID(h.Location.TripwireID, minute, 0), isNew
}

// tests remembers the tests that were used on this node, until the configuration says so.
type tests struct {
	mu   sync.Mutex
	used map[string]leak.TripwireTest // by tripwire: the newest
}

// take reports whether a test was not used before, and takes it.
func (x *tests) take(tripwire string, test leak.TripwireTest) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.used, func(_ string, old leak.TripwireTest) bool { return test.Until.Sub(old.Until) > time.Hour })
	if x.used[tripwire] == test {
		return false
	}
	x.used[tripwire] = test
	return true
}
