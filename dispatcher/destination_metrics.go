package dispatcher

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of the metrics per destination.
const (
	// topDestinations is how many destinations have series of their own because they are busy, and how many because
	// they fail.
	topDestinations = 50
	// maxRanked is how many destinations are ranked. Further ones of the same minute count as otherDestinations.
	maxRanked = 10_000
	// rankEvery is the time between two rankings. Each halves what was counted before, so that yesterday's peak does
	// not keep its place.
	rankEvery = time.Minute
	// otherDestinations is the label of all destinations without series of their own.
	otherDestinations = "other"
)

var (
	destinationAttempts = prometheus.NewDesc("relay_dispatch_destination_attempt_duration_seconds",
		"Requests to a destination and their duration, of the 50 busiest and the 50 that fail most; all others are one "+
			"destination, other.", []string{"destination"}, nil)
	destinationFailures = prometheus.NewDesc("relay_dispatch_destination_failures_total",
		"Failed requests to a destination, of the same destinations.", []string{"destination"}, nil)
)

// destinations is a collector of metrics per destination, at most 2·topDestinations+1 of them. A destination that
// enters begins at 0. One that leaves takes its counts along and is counted as other from then on: were its counts
// added there, a rate over all destinations would see them twice.
type destinations struct {
	now func() time.Time

	mu       sync.Mutex // guards the fields below
	ranked   map[string]*activity
	exported map[string]*destinationCounts
	other    destinationCounts
	rankAt   time.Time // of the next ranking
}

// activity is by what a destination is ranked; it halves every rankEvery.
type activity struct{ attempts, failures float64 }

// destinationCounts are the counters of one destination.
type destinationCounts struct {
	attempts, failures uint64
	seconds            float64
}

func newDestinations(now func() time.Time) *destinations {
	return &destinations{now: now, ranked: map[string]*activity{}, exported: map[string]*destinationCounts{}}
}

// observe counts one request to a destination.
func (d *destinations) observe(destination string, ok bool, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rankIfDue()
	if a := d.activityOf(destination); a != nil {
		a.attempts++
		if !ok {
			a.failures++
		}
	}
	counts := d.exported[destination]
	switch {
	case counts != nil:
	case len(d.exported) < 2*topDestinations:
		counts = &destinationCounts{}
		d.exported[strings.Clone(destination)] = counts // see activityOf
	default:
		counts = &d.other
	}
	counts.attempts++
	counts.seconds += took.Seconds()
	if !ok {
		counts.failures++
	}
}

// activityOf returns the activity of a destination, nil if too many are ranked.
func (d *destinations) activityOf(destination string) *activity {
	a := d.ranked[destination]
	if a == nil && len(d.ranked) < maxRanked {
		a = &activity{}
		d.ranked[strings.Clone(destination)] = a // it shares the memory of all headers of an event
	}
	return a
}

// rankIfDue removes the series of destinations that are no longer among the busiest or the worst. Their places go to
// those among them that have none; a place that is still free goes to the next destination that gets a request.
func (d *destinations) rankIfDue() {
	now := d.now()
	if now.Before(d.rankAt) {
		return
	}
	d.rankAt = now.Add(rankEvery)
	top := d.top()
	maps.DeleteFunc(d.exported, func(name string, _ *destinationCounts) bool { return !top[name] })
	for name := range top {
		if d.exported[name] == nil {
			d.exported[name] = &destinationCounts{}
		}
	}
	maps.DeleteFunc(d.ranked, func(_ string, a *activity) bool {
		a.attempts /= 2
		a.failures /= 2
		return a.attempts < 0.01 // nothing for some minutes
	})
}

// top returns the busiest destinations and those with the most failures.
func (d *destinations) top() map[string]bool {
	names := slices.Collect(maps.Keys(d.ranked))
	top := make(map[string]bool, 2*topDestinations)
	add := func(of func(*activity) float64) {
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(of(d.ranked[b]), of(d.ranked[a])), cmp.Compare(a, b))
		})
		for _, name := range names[:min(topDestinations, len(names))] {
			if of(d.ranked[name]) > 0 {
				top[name] = true
			}
		}
	}
	add(func(a *activity) float64 { return a.attempts })
	add(func(a *activity) float64 { return a.failures })
	return top
}

// Describe implements prometheus.Collector.
func (d *destinations) Describe(out chan<- *prometheus.Desc) {
	out <- destinationAttempts
	out <- destinationFailures
}

// Collect implements prometheus.Collector.
func (d *destinations) Collect(out chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rankIfDue()
	emit := func(name string, c *destinationCounts) {
		out <- prometheus.MustNewConstSummary(destinationAttempts, c.attempts, c.seconds, nil, name)
		out <- prometheus.MustNewConstMetric(destinationFailures, prometheus.CounterValue, float64(c.failures), name)
	}
	for name, c := range d.exported {
		emit(name, c)
	}
	emit(otherDestinations, &d.other)
}
