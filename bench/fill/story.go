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
	"github.com/eventrelay/relay/store/write"
)

// world is what the events have in common. It is for one caller at a time.
type world struct {
	cfg      Config
	rnd      *rand.Rand
	from, to time.Time
	clock    time.Time // of the event that is made
	ids      *id.Generator
	attempts *id.Generator
	shapes   []shape
	sizes    []int
	places   []place
	turns    []int32  // numbers of places, each as often as it has a share
	runs     []string // one of each day
	number   int      // of the next event
	offset   int64    // of the next event and outcome
	last     id.ID    // of the event before, whose duplicate the next may be
	scratch  []byte
}

// place is an endpoint with what is worked out of it once.
type place struct {
	Endpoint
	dests     []string
	partition int32
	types     []string
}

// rows are those of one insert, with memory that is used again for the one after the next.
type rows struct {
	write.BulkRows
	attempts int
	bodies   []byte
	text     strings.Builder
	tries    []event.Attempt
	headers  []event.Field
}

// partitions are those of the topics in dev.
const partitions = 4

// rareType is the type of one event in rareEvery.
const (
	rareType  = "account.closed"
	rareEvery = 20_000
)

func newWorld(cfg Config, now time.Time) *world {
	w := &world{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 1)), to: now.Truncate(time.Millisecond), shapes: shapes()}
	// what is at the edge of the retention would soon be beyond it
	w.from = w.to.AddDate(0, 0, -cfg.Days).Add(5 * time.Minute)
	now = w.from
	w.clock = w.from
	clock := func() time.Time { return w.clock }
	w.ids, w.attempts = id.NewGenerator(clock), id.NewGenerator(clock)
	w.sizes = drawSizes(w.rnd)
	w.turns = shares(len(cfg.Endpoints))
	kinds := []string{"order.created", "order.paid", "order.shipped", "invoice.created", "invoice.paid", "push",
		"pull_request.opened", "sensor.reading"}
	for i, e := range cfg.Endpoints {
		h := fnv.New32a()
		_, _ = h.Write([]byte(e.ID)) // never fails
		p := place{Endpoint: e, partition: int32(h.Sum32() % partitions),
			types: []string{kinds[i%len(kinds)], kinds[(i+1)%len(kinds)]}}
		for _, d := range e.Dests {
			p.dests = append(p.dests, d.ID)
		}
		w.places = append(w.places, p)
	}
	runs := id.NewGenerator(func() time.Time { return now })
	for ; now.Before(w.to); now = now.AddDate(0, 0, 1) {
		w.runs = append(w.runs, runs.NewUnbounded(0).Text(id.Run))
	}
	return w
}

// shares is a list of numbers below n in which number i occurs 1/(i+1) times as often as number 0, at least once.
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

// next makes the rows of up to n more events, all of one day, and reports whether there are any.
func (w *world) next(b *rows, n int) bool {
	n = min(n, w.cfg.Events-w.number)
	if n == 0 {
		return false
	}
	b.Events, b.Outcomes, b.Receipts, b.Offset = b.Events[:0], b.Outcomes[:0], b.Receipts[:0], w.offset
	b.attempts, b.bodies, b.tries, b.headers = 0, b.bodies[:0], b.tries[:0], b.headers[:0]
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

// at is when the nth event came: they come evenly, for a day must not be slow only because it was busy.
func (w *world) at(n int) time.Time {
	return w.from.Add(time.Duration(float64(w.to.Sub(w.from)) * float64(n) / float64(w.cfg.Events)))
}

// event makes one event and what becomes of it.
func (w *world) event(b *rows) {
	x := w.rnd.Uint64()
	p := &w.places[w.turns[x%uint64(len(w.turns))]]
	x >>= 20
	out := w.isOut(w.number)
	if out {
		p = &w.places[1%len(w.places)]
	}
	e := event.Event{
		ID: w.ids.NewUnbounded(p.partition), Account: w.cfg.Account, Endpoint: p.ID, Source: event.SourceProvider,
		Verdict: event.VerdictVerified,
		Type:    p.types[x&1], Method: "POST", RemoteIP: remote(byte(x >> 1)), Dests: p.dests,
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
	w.become(b, p, &e, out)
	b.Events = append(b.Events, e)
	w.last = e.ID
}

// isOut reports whether the nth event is one of the outage: each second one of a time that ended two days ago.
func (w *world) isOut(n int) bool {
	const daysAgo = 2
	end := w.cfg.Events - w.cfg.Events*daysAgo/max(w.cfg.Days, daysAgo+1)
	from := max(end-2*w.cfg.Outage, 0)
	return n >= from && n < from+2*w.cfg.Outage && n%2 == 0
}

// keep is the text of bytes that will change.
func (b *rows) keep(text []byte) string {
	const piece = 1 << 20
	if b.text.Cap()-b.text.Len() < len(text) {
		b.text = strings.Builder{}
		b.text.Grow(max(piece, len(text)))
	}
	from := b.text.Len()
	b.text.Write(text)
	return b.text.String()[from:]
}

// header makes the header of a request: some lines that all have, a few that none shares.
func (w *world) header(b *rows, size int) []event.Field {
	from := len(b.headers)
	w.scratch = appendCode(append(w.scratch[:0], "t=1760000000,v1="...), w.rnd.Uint64(), 12)
	for range 4 {
		w.scratch = appendCode(w.scratch, w.rnd.Uint64(), 12)
	}
	signature := b.keep(w.scratch)
	w.scratch = appendCode(w.scratch[:0], w.rnd.Uint64(), 12)
	request := b.keep(w.scratch)
	w.scratch = appendNumber(w.scratch[:0], size)
	b.headers = append(b.headers,
		event.Field{Name: "Accept", Value: "*/*"}, event.Field{Name: "Content-Length", Value: b.keep(w.scratch)},
		event.Field{Name: "Content-Type", Value: "application/json; charset=utf-8"},
		event.Field{Name: "User-Agent", Value: "Provider/1.0 (+https://example.com/docs/webhooks)"},
		event.Field{Name: "X-Provider-Request", Value: request}, event.Field{Name: "X-Provider-Signature", Value: signature})
	return b.headers[from:len(b.headers):len(b.headers)]
}
