package fill

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// What becomes of events, in events of 10,000. The rest is delivered by the first attempt.
const (
	outOf      = 10_000
	rejected   = 80
	unrouted   = 60 // there was no destination
	duplicates = 40
	tests      = 10
	failed     = 100 // for good, half of them after several attempts
	retrying   = 30
	retried    = 200 // delivered by the second or third attempt
	replayed   = 20  // delivered, and once more by a replay
	received   = 600 // delivered, and the receiver said what became of it
)

// atWork is how many of the newest events wait for a place at their destination.
const atWork = 50

// become decides what becomes of an event and appends what was said about it. One that came while the destination was
// out has failed.
func (w *world) become(b *rows, p *place, e *event.Event, out bool) {
	fate := int(w.rnd.Uint64() % outOf)
	if out {
		fate = rejected + unrouted + duplicates + tests + fate%failed
	}
	is := func(n int) bool { fate -= n; return fate < 0 }
	switch {
	case is(rejected):
		e.Verdict, e.Reason, e.Dests = event.VerdictRejected, event.SignatureMismatch, nil
		return
	case is(unrouted):
		e.Reason, e.Dests = event.NoDestination, nil
		return
	case is(duplicates):
		if !w.last.IsZero() {
			e.Reason, e.Dests, e.DuplicateOf = event.Duplicate, nil, w.last.Text(id.Event)
		}
		return
	case is(tests):
		e.Source, e.Verdict = event.SourceTest, event.VerdictUnverified
	}
	if w.number >= w.cfg.Events-atWork {
		for i := range p.Dests {
			b.Outcomes = append(b.Outcomes, event.Outcome{
				Event: e.ID, Account: e.Account, Endpoint: e.Endpoint, Dest: p.Dests[i].ID, Type: e.Type,
				Status: event.Pending, Reason: event.LaneFull, At: w.clock, NextAt: w.clock.Add(time.Hour),
			})
		}
		return
	}
	for i := range p.Dests {
		c := chain{w: w, b: b, e: e, to: &p.Dests[i], at: w.clock.Add(20 * time.Millisecond)}
		switch n := fate; {
		case n < 0:
			c.ends(event.Delivered, 1)
		case n < failed:
			c.ends(event.Failed, 1+4*(n&1))
		case n < failed+retrying:
			c.ends(event.Retrying, 3)
		case n < failed+retrying+retried:
			c.ends(event.Delivered, 2+n&1)
		case n < failed+retrying+retried+replayed:
			c.ends(event.Delivered, 1)
			c.replay()
		default:
			c.ends(event.Delivered, 1)
		}
	}
	if fate >= outOf-rejected-unrouted-duplicates-tests-received {
		w.receipt(b, e)
	}
}

// chain is what happens to one delivery.
type chain struct {
	w   *world
	b   *rows
	e   *event.Event
	to  *Destination
	at  time.Time
	run string
}

// ends appends the outcomes of n attempts, of which the last leads to the status.
func (c *chain) ends(status event.Status, n int) {
	trigger := event.TriggerInitial
	for i := 1; i < n; i++ {
		c.attempt(trigger, event.Retrying, "")
		trigger = event.TriggerRetry
		c.at = c.at.Add(time.Duration(i) * 10 * time.Second)
	}
	switch {
	case status != event.Failed:
		c.attempt(trigger, status, "")
	case n == 1:
		c.attempt(trigger, status, event.NotRetryable)
	default:
		c.attempt(trigger, status, event.AttemptsExhausted)
	}
}

// replay appends the outcome of a replay of the same day.
func (c *chain) replay() {
	day := int(c.w.clock.Sub(c.w.from) / (24 * time.Hour))
	c.run, c.at = c.w.runs[min(day, len(c.w.runs)-1)], c.at.Add(time.Hour)
	c.attempt(event.TriggerReplay, event.Delivered, "")
}

func (c *chain) attempt(trigger event.Trigger, status event.Status, reason event.Reason) {
	w, b, x := c.w, c.b, c.w.rnd.Uint64()
	a := event.Attempt{
		ID: w.attempts.NewUnbounded(c.e.ID.Partition()), StartedAt: c.at, Trigger: trigger, OK: true, Code: 200,
		RemoteIP: remote(7),
		URL:      c.to.URL, Method: "POST",
		Duration: time.Duration(15+x%200) * time.Millisecond, TTFB: time.Duration(10+x%190) * time.Millisecond,
		ResponseBody:   accepted,
		ResponseHeader: "Content-Type: application/json\nServer: nginx\nX-Request-Id: 1\n",
	}
	if status != event.Delivered {
		a.OK, a.Code, a.ErrorCode, a.ErrorMessage, a.ResponseBody = false, 503, event.CodeHTTPStatus,
			"answered 503 Service Unavailable", refusedPage
	}
	if x>>60 == 0 && !a.OK { // some do not answer at all
		a.Code, a.ErrorCode, a.ErrorMessage, a.ResponseBody, a.ResponseHeader = 0, event.CodeTimeout,
			"no answer within 15 s", nil, ""
		a.Duration = 15 * time.Second
	}
	a.RequestHeader = w.sent(b, c.e, trigger)
	b.tries = append(b.tries, a)
	o := event.Outcome{
		Event: c.e.ID, Account: c.e.Account, Endpoint: c.e.Endpoint, Dest: c.to.ID, Type: c.e.Type, Status: status,
		Reason: reason, Code: a.Code,
		At: c.at.Add(a.Duration), Run: c.run, Attempt: &b.tries[len(b.tries)-1],
	}
	if status == event.Retrying {
		o.NextAt = c.at.Add(time.Hour)
	}
	b.Outcomes = append(b.Outcomes, o)
	b.attempts++
}

// sent are the lines of a delivery: those that were received, and ours.
func (w *world) sent(b *rows, e *event.Event, trigger event.Trigger) event.Lines {
	s := w.scratch[:0]
	for _, f := range e.Header {
		s = append(append(append(append(s, f.Name...), ": "...), f.Value...), '\n')
	}
	s = append(append(append(s, "Relay-Endpoint-Id: "...), e.Endpoint...), "\nRelay-Trigger: "...)
	s = append(append(s, trigger...), "\nWebhook-Id: "...)
	s = e.ID.Append(append(s, id.Event...))
	s = append(s, "\nWebhook-Signature: v1,"...)
	for range 4 {
		s = appendCode(s, w.rnd.Uint64(), 12)
	}
	s = append(s, "\nWebhook-Timestamp: "...)
	w.scratch = append(strconv.AppendInt(s, w.clock.Unix(), 10), '\n')
	return event.Lines(b.keep(w.scratch))
}

// receipt appends what the receiver said about the event.
func (w *world) receipt(b *rows, e *event.Event) {
	r := event.Receipt{Event: e.ID, Account: e.Account, Endpoint: e.Endpoint, State: event.ProcessingDone,
		At: w.clock.Add(2 * time.Second), Reference: "job-1"}
	switch w.rnd.Uint64() % 10 {
	case 0:
		r.State, r.Details = event.ProcessingFailed, `"the row is locked"`
	case 1:
		r.State = event.ProcessingRunning
	}
	b.Receipts = append(b.Receipts, r)
}

// Bodies of answers.
var (
	accepted    = []byte(`{"ok":true}`)
	refusedPage = []byte("<html><head><title>503 Service Temporarily " +
		"Unavailable</title></head><body><center><h1>503</h1></center></body></html>")
)

// remote is an address of those that are kept for documentation.
func remote(n byte) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, n}) }

func appendNumber(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
