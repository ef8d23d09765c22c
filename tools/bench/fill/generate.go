package fill

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// generator generates the events and their outcomes. It is not safe for concurrent use.
type generator struct {
	cfg       Config
	rnd       *rand.Rand
	from, to  time.Time
	clock     time.Time // time of the current event
	ids       *id.Generator
	attempts  *id.Generator
	shapes    []shape
	sizes     []int
	endpoints []endpointState
	weighted  []int32  // indexes of endpoints, each as often as its share of the events
	runs      []string // ids of replay runs, one for each day
	number    int      // of the next event
	offset    int64    // log offset of the next rows
	last      id.ID    // the previous event, which the next may duplicate
	scratch   []byte
}

// endpointState is an endpoint with values that are computed once.
type endpointState struct {
	Endpoint
	dests     []string
	partition int32
	types     []string
}

// rows are the rows of one insert. Their memory is reused for the insert after the next.
type rows struct {
	Events      []event.Event
	Outcomes    []event.Outcome
	Receipts    []event.Receipt
	Offset      int64 // see write.Sinks.Insert
	attempts    int
	bodies      []byte
	text        strings.Builder
	attemptRows []event.Attempt
	headers     []event.Field
}

// partitions is the number of partitions of the topics in dev.
const partitions = 4

// rareType is the type of one event in rareEvery.
const (
	rareType  = "account.closed"
	rareEvery = 20_000
)

func newGenerator(cfg Config, now time.Time) *generator {
	w := &generator{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 1)), to: now.Truncate(time.Millisecond),
		shapes: shapes()}
	// not quite at the retention limit, where the oldest events would expire at once
	w.from = w.to.AddDate(0, 0, -cfg.Days).Add(5 * time.Minute)
	now = w.from
	w.clock = w.from
	clock := func() time.Time { return w.clock }
	w.ids, w.attempts = id.NewGenerator(clock), id.NewGenerator(clock)
	w.sizes = drawSizes(w.rnd)
	w.weighted = shares(len(cfg.Endpoints))
	kinds := []string{"order.created", "order.paid", "order.shipped", "invoice.created", "invoice.paid", "push",
		"pull_request.opened", "sensor.reading"}
	for i, e := range cfg.Endpoints {
		h := fnv.New32a()
		_, _ = h.Write([]byte(e.ID)) // never fails
		p := endpointState{Endpoint: e, partition: int32(h.Sum32() % partitions),
			types: []string{kinds[i%len(kinds)], kinds[(i+1)%len(kinds)]}}
		for _, d := range e.Dests {
			p.dests = append(p.dests, d.ID)
		}
		w.endpoints = append(w.endpoints, p)
	}
	runs := id.NewGenerator(func() time.Time { return now })
	for ; now.Before(w.to); now = now.AddDate(0, 0, 1) {
		w.runs = append(w.runs, runs.NewUnbounded(0).Text(id.Run))
	}
	return w
}

// shares returns a list of numbers below n in which i occurs 1/(i+1) times as often as 0, at least once.
func shares(n int) []int32 {
	const length = 1 << 16
	sum := 0.0
	for i := range n {
		sum += 1 / float64(i+1)
	}
	var out []int32
	for i := range n {
		times := max(1, int(math.Round(length/sum/float64(i+1))))
		out = append(out, slices.Repeat([]int32{int32(i)}, times)...)
	}
	return out
}

// next generates the rows of up to n more events, all of one day, and reports whether there are any.
func (w *generator) next(b *rows, n int) bool {
	n = min(n, w.cfg.Events-w.number)
	if n == 0 {
		return false
	}
	b.Events, b.Outcomes, b.Receipts, b.Offset = b.Events[:0], b.Outcomes[:0], b.Receipts[:0], w.offset
	b.attempts, b.bodies, b.attemptRows, b.headers = 0, b.bodies[:0], b.attemptRows[:0], b.headers[:0]
	day := w.at(w.number).Truncate(24 * time.Hour)
	for ; n > 0; n-- {
		at := w.at(w.number)
		if !at.Truncate(24 * time.Hour).Equal(day) {
			break
		}
		w.clock = at
		w.event(b)
		w.number++
	}
	w.offset += int64(max(len(b.Events), len(b.Outcomes), len(b.Receipts)))
	return true
}

// at returns the time of the nth event. Events are evenly distributed, so that no day is slower because it is busier.
func (w *generator) at(n int) time.Time {
	return w.from.Add(time.Duration(float64(w.to.Sub(w.from)) * float64(n) / float64(w.cfg.Events)))
}

// event generates one event and its outcomes.
func (w *generator) event(b *rows) {
	x := w.rnd.Uint64()
	p := &w.endpoints[w.weighted[x%uint64(len(w.weighted))]]
	x >>= 20
	out := w.inOutage(w.number)
	if out {
		p = &w.endpoints[1%len(w.endpoints)]
	}
	e := event.Event{
		ID: w.ids.NewUnbounded(p.partition), Account: w.cfg.Account, Endpoint: p.ID, Source: event.SourceProvider,
		Verdict: event.VerdictVerified,
		Type:    p.types[x&1], Method: "POST", RemoteIP: documentationAddr(byte(x >> 1)), Dests: p.dests,
	}
	if x>>9&3 == 0 {
		e.Source, e.Verdict = event.SourceAPI, event.VerdictUnverified
	}
	if x>>11%rareEvery == 0 {
		e.Type = rareType
	}
	from := len(b.bodies)
	size := w.sizes[w.number%len(w.sizes)]
	b.bodies = w.shapes[x>>40%uint64(len(w.shapes))].appendBody(b.bodies, w.rnd, e.Type, w.number, size)
	e.Body = b.bodies[from:len(b.bodies):len(b.bodies)]
	e.Header = w.header(b, len(e.Body))
	w.addOutcomes(b, p, &e, out)
	b.Events = append(b.Events, e)
	w.last = e.ID
}

// inOutage reports whether the nth event belongs to the outage: every second event of a period that ended two days ago.
func (w *generator) inOutage(n int) bool {
	const daysAgo = 2
	end := w.cfg.Events - w.cfg.Events*daysAgo/max(w.cfg.Days, daysAgo+1)
	from := max(end-2*w.cfg.Outage, 0)
	return n >= from && n < from+2*w.cfg.Outage && n%2 == 0
}

// copyText copies bytes that will change into a string, in pieces of 1 MiB.
func (b *rows) copyText(text []byte) string {
	const piece = 1 << 20
	if b.text.Cap()-b.text.Len() < len(text) {
		b.text = strings.Builder{}
		b.text.Grow(max(piece, len(text)))
	}
	from := b.text.Len()
	b.text.Write(text)
	return b.text.String()[from:]
}

// header generates the header of a request: some lines that all requests share, and a few unique ones.
func (w *generator) header(b *rows, size int) []event.Field {
	from := len(b.headers)
	w.scratch = appendCode(append(w.scratch[:0], "t=1760000000,v1="...), w.rnd.Uint64(), 12)
	for range 4 {
		w.scratch = appendCode(w.scratch, w.rnd.Uint64(), 12)
	}
	signature := b.copyText(w.scratch)
	w.scratch = appendCode(w.scratch[:0], w.rnd.Uint64(), 12)
	request := b.copyText(w.scratch)
	w.scratch = appendNumber(w.scratch[:0], size)
	b.headers = append(b.headers,
		event.Field{Name: "Accept", Value: "*/*"}, event.Field{Name: "Content-Length", Value: b.copyText(w.scratch)},
		event.Field{Name: "Content-Type", Value: "application/json; charset=utf-8"},
		event.Field{Name: "User-Agent", Value: "Provider/1.0 (+https://example.com/docs/webhooks)"},
		event.Field{Name: "X-Provider-Request", Value: request}, event.Field{Name: "X-Provider-Signature", Value: signature})
	return b.headers[from:len(b.headers):len(b.headers)]
}
