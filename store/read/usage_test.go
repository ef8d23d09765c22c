package read_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/storetest"
)

// usageHistory is a list of events with the use that they should count as.
type usageHistory struct {
	*bench
	rnd    *rand.Rand
	events []*event.Event
	found  *findingsModel // nil: no findings
}

// at makes an event that was received at a time.
func (b *bench) at(t time.Time, endpoint int, change ...func(*event.Event)) *event.Event {
	b.Helper()
	e := b.Event(endpoint, change...)
	var err error
	if e.ID, err = id.NewGenerator(func() time.Time { return t }).New(storetest.PartitionOf(endpoint)); err != nil {
		b.Fatal(err)
	}
	return e
}

// addEvents accepts n events of the last ten days, a third of them in the last hours.
func (b *usageHistory) addEvents(n int) {
	b.Helper()
	for range n {
		back := 10 * 24 * time.Hour
		if b.rnd.IntN(3) == 0 {
			back = 5 * time.Hour
		}
		e := b.at(time.Now().Add(-time.Duration(b.rnd.Int64N(int64(back)))), b.rnd.IntN(30), func(e *event.Event) {
			e.Body = make([]byte, b.rnd.IntN(2000))
			switch b.rnd.IntN(8) {
			case 0, 1:
				e.Source = event.SourceAPI
			case 2:
				e.Source = event.SourceTest
			case 3:
				e.Verdict, e.Reason = event.VerdictRejected, event.SignatureMismatch
			case 4:
				e.Reason, e.DuplicateOf, e.Dests = event.Duplicate, b.Event(1).ID.Text(id.Event), nil
			case 5:
				e.Verdict, e.Reason = event.VerdictObserved, event.SignatureMismatch
			case 6:
				e.Dests, e.Reason = nil, event.NoDestination
			}
		})
		b.events = append(b.events, e)
		b.resend(e)
		if b.rnd.IntN(4) == 0 { // attempts are not billed
			b.Produce(stream.Outcomes, e.ID.Partition(), b.Outcome(e, "dst_a", event.Failed).Record())
		}
	}
}

// resend produces the record of an event again.
func (b *bench) resend(e *event.Event) {
	b.Helper()
	r := e.Record()
	r.Timestamp = time.Time{} // the producer counts its time-out from it
	b.Produce(stream.Events, e.ID.Partition(), r)
}

// want returns the expected figures: it counts the events one by one.
func (b *usageHistory) want(span event.UsageSpan) (f event.Figures) {
	type endpointDay struct {
		endpoint string
		day      time.Time
	}
	days, endpoints := map[time.Time]event.Use{}, map[string]event.Use{}
	endpointDays := map[endpointDay]event.Use{}
	for _, e := range b.events {
		t := e.ID.Time()
		if e.Source == event.SourceTest || e.Verdict == event.VerdictRejected || e.Reason == event.Duplicate ||
			!t.Before(span.To) {
			continue
		}
		if !t.Before(span.Recent) {
			f.Recent++
		}
		if t.Before(span.From) {
			continue
		}
		add := func(u event.Use) event.Use {
			if e.Source == event.SourceAPI {
				u.Sent++
			} else {
				u.Received++
			}
			u.Bytes += int64(len(e.Body))
			return u
		}
		day := t.UTC().Truncate(24 * time.Hour)
		days[day], endpoints[e.Endpoint] = add(days[day]), add(endpoints[e.Endpoint])
		at := endpointDay{e.Endpoint, day}
		endpointDays[at] = add(endpointDays[at])
	}
	if b.found != nil {
		for day, n := range b.found.usage() {
			if day.Before(span.To) && !day.Before(span.Recent) {
				f.Recent += n
			}
			if day.Before(span.To) && !day.Before(span.From) {
				use := days[day]
				use.Findings = n
				days[day] = use
			}
		}
	}
	for day, use := range days {
		f.Daily = append(f.Daily, event.DayUse{Day: day, Use: use})
	}
	slices.SortFunc(f.Daily, func(a, b event.DayUse) int { return a.Day.Compare(b.Day) })
	for ep, use := range endpoints {
		f.ByEndpoint = append(f.ByEndpoint, event.EndpointUse{Endpoint: ep, Use: use})
	}
	slices.SortFunc(f.ByEndpoint, func(a, b event.EndpointUse) int {
		if a.Total() != b.Total() {
			return int(b.Total() - a.Total())
		}
		if a.Endpoint < b.Endpoint {
			return -1
		}
		return 1
	})
	f.ByEndpoint = f.ByEndpoint[:min(len(f.ByEndpoint), 20)]
	for at, use := range endpointDays {
		for i := range f.ByEndpoint {
			if x := &f.ByEndpoint[i]; x.Endpoint == at.endpoint {
				x.Days = append(x.Days, event.DayUse{Day: at.day, Use: use})
			}
		}
	}
	for _, x := range f.ByEndpoint {
		slices.SortFunc(x.Days, func(a, b event.DayUse) int { return a.Day.Compare(b.Day) })
	}
	return f
}

// compareUsage compares the store's figures with the events, for a span around all of them and for random spans.
func (b *usageHistory) compareUsage(r *read.Reader, spans int) {
	b.Helper()
	b.WaitCaughtUp(r) // a read waits for the writer for a shorter time, too short on a slow machine
	hour := func() time.Time {
		return time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(b.rnd.Int64N(11*24)) * time.Hour)
	}
	for i := range spans {
		span := event.UsageSpan{From: hour(), To: hour(), Recent: hour(), EndpointDays: true}
		if i == 0 {
			span.From, span.To = time.Now().AddDate(0, 0, -12).Truncate(time.Hour), time.Now().Add(time.Hour).Truncate(time.Hour)
		}
		if span.To.Before(span.From) {
			span.From, span.To = span.To, span.From
		}
		got, err := r.Usage(b.Context(), event.UsageOf{Account: storetest.Account}, span)
		if err != nil {
			b.Fatal(err)
		}
		if since := time.Since(got.AsOf); since < 0 || since > time.Minute || got.QueryTime <= 0 {
			b.Fatalf("as of %v, took %v", got.AsOf, got.QueryTime)
		}
		use, daily := got.Sum(), int64(0)
		for _, d := range got.Daily {
			daily += d.Total()
		}
		if daily != use.Total() {
			b.Fatalf("the sum of the days is %d, the total %d", daily, use.Total())
		}
		got.AsOf, got.QueryTime, got.Attempts, got.Deliveries = time.Time{}, 0, 0, 0
		if diff := cmp.Diff(b.want(span), got); diff != "" {
			b.Fatalf("span %+v (-want +got):\n%s", span, diff)
		}
	}
}

// countUsage lets a writer count the usage, as soon as it has partitions of events and of findings.
func (b *bench) countUsage(w *write.Writer) {
	b.Helper()
	for {
		p := w.Progress()
		topics := make(map[string]bool)
		for at := range p.Owned {
			topics[at.Topic] = true
		}
		if topics[stream.Events] && topics[stream.Findings] {
			break
		}
		<-p.Changed
	}
	if err := w.CountUsage(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// TestNextWriterCountsHoursOfADeadOne: hours that a dead writer has stored but not counted are counted by the next one,
// also when they are old by then; events that have expired stay counted.
func TestNextWriterCountsHoursOfADeadOne(t *testing.T) {
	b := &usageHistory{bench: newBench(t), rnd: rand.New(rand.NewPCG(1, 1))}
	b.addEvents(100)
	day := time.Now().UTC().AddDate(0, 0, -4)
	for range 3 { // in one hour of that day
		e := b.at(day.Truncate(time.Hour), 1)
		b.events = append(b.events, e)
		b.resend(e)
	}
	w, stop := b.Writer(write.WriterConfig{})
	b.compareUsage(b.Reader(w), 1)
	// A writer has died with nothing counted.
	stop()
	b.Exec("TRUNCATE TABLE usage_hour")
	b.Exec("SYSTEM STOP TTL MERGES events")
	b.Exec("INSERT INTO events (account) SELECT ''") // a row of a health check: its time, 1970, must not start the count
	w, stop = b.Writer(write.WriterConfig{})
	b.countUsage(w)
	b.compareUsage(b.Reader(w), 3)
	stop()
	// A writer has counted all but the last 26 hours; reads count the newest of these themselves.
	newest := b.QuerySum("SELECT toUInt64(toUnixTimestamp(max(t))) FROM usage_hour")
	b.Exec(fmt.Sprintf("ALTER TABLE usage_hour DELETE WHERE t > toDateTime(%d) - INTERVAL 26 HOUR AND t < "+
		"toDateTime(%d) SETTINGS mutations_sync = 1", newest, newest))
	w, stop = b.Writer(write.WriterConfig{})
	b.countUsage(w)
	b.compareUsage(b.Reader(w), 3)
	stop()

	// One event of that day is produced again: its hour is counted again, and the expired events stay counted.
	b.Exec("ALTER TABLE events DROP PARTITION " + day.Format("20060102"))
	b.resend(b.events[100])
	w, _ = b.Writer(write.WriterConfig{})
	// count from far back
	b.Exec("ALTER TABLE usage_hour DELETE WHERE t > now() - INTERVAL 30 HOUR SETTINGS mutations_sync = 1")
	b.countUsage(w)
	b.compareUsage(b.Reader(w), 3)
}

// TestHoursOfThePreviousWriterAreCountedFirst: a writer that returns after days has newer hours to count at once. It
// reads from the last counted hour how far its predecessor came, so it must read that before it counts newer hours.
func TestHoursOfThePreviousWriterAreCountedFirst(t *testing.T) {
	b := &usageHistory{bench: newBench(t), rnd: rand.New(rand.NewPCG(1, 1))}
	now := time.Now().UTC()
	happen := func(ago time.Duration) {
		e := b.at(now.Add(-ago), 1)
		b.events = append(b.events, e)
		b.resend(e)
	}
	happen(90 * time.Hour)
	happen(60 * time.Hour)
	w, stop := b.Writer(write.WriterConfig{})
	b.compareUsage(b.Reader(w), 1)
	stop()
	// It has stored this hour when it was the current one, and died before counting it.
	b.Exec("ALTER TABLE usage_hour DELETE WHERE t > now() - INTERVAL 62 HOUR SETTINGS mutations_sync = 1")
	b.Exec("ALTER TABLE usage_day DELETE WHERE t > now() - INTERVAL 85 HOUR SETTINGS mutations_sync = 1")
	happen(5 * time.Hour)
	w, _ = b.Writer(write.WriterConfig{})
	b.WaitCaughtUp(b.Reader(w))
	b.countUsage(w)
	b.compareUsage(b.Reader(w), 3)
}

// TestUsageCountsRequests: no attempt is missing from the count, which may be too high.
func TestUsageCountsRequests(t *testing.T) {
	b := newBench(t)
	e := b.Event(1)
	b.ProduceEvents(e)
	b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Retrying), b.Outcome(e, "dst_a", event.Delivered),
		b.Outcome(e, "dst_b", event.Delivered))
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	now := time.Now().UTC().Truncate(time.Hour)
	got, err := r.Usage(t.Context(), event.UsageOf{Account: storetest.Account},
		event.UsageSpan{From: now.Add(-time.Hour), To: now.Add(2 * time.Hour), Recent: now.Add(-time.Hour)})
	if err != nil || got.Attempts != 3 || got.Deliveries != 2 || got.Recent != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	part, err := r.Usage(t.Context(),
		event.UsageOf{Account: storetest.Account, Endpoints: []string{e.Endpoint, "ep_none"}},
		event.UsageSpan{From: now.Add(-time.Hour), To: now.Add(2 * time.Hour), Recent: now.Add(-time.Hour)})
	if err != nil || part.Attempts != 3 || part.Recent != 1 || len(part.ByEndpoint) != 1 {
		t.Fatalf("%+v, %v", part, err)
	}
	for _, other := range []struct {
		of   event.UsageOf
		from time.Time
	}{{event.UsageOf{Account: "acc_2"}, now.Add(-time.Hour)},
		{event.UsageOf{Account: storetest.Account}, now.Add(time.Hour)},
		{event.UsageOf{Account: storetest.Account, Endpoints: []string{"ep_none"}}, now.Add(-time.Hour)}} {
		got, err = r.Usage(t.Context(), other.of,
			event.UsageSpan{From: other.from, To: now.Add(2 * time.Hour), Recent: other.from})
		if err != nil || got.Attempts+got.Deliveries+got.Recent != 0 || len(got.Daily)+len(got.ByEndpoint) != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
}
