package fill

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// How many of 10,000 events end in which way. The other events are delivered by the first attempt.
const (
	outOf      = 10_000
	rejected   = 80
	unrouted   = 60 // without a destination
	duplicates = 40
	tests      = 10
	failed     = 100 // finally, half of them after several attempts
	retrying   = 30
	retried    = 200 // delivered by the second or third attempt
	replayed   = 20  // delivered, and delivered again by a replay
	received   = 600 // delivered, with a processing receipt
)

// pendingEvents is how many of the newest events are pending because their lane is full.
const pendingEvents = 50

// addOutcomes chooses an event's outcomes at random and appends their rows. Events of the outage have failed.
func (w *generator) addOutcomes(b *rows, p *endpointState, e *event.Event, out bool) {
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
	if w.number >= w.cfg.Events-pendingEvents {
		for i := range p.Dests {
			b.Outcomes = append(b.Outcomes, event.Outcome{
				Event: e.ID, Account: e.Account, Endpoint: e.Endpoint, Dest: p.Dests[i].ID, Type: e.Type,
				Status: event.Pending, Reason: event.LaneFull, At: w.clock, NextAt: w.clock.Add(time.Hour),
			})
		}
		return
	}
	for i := range p.Dests {
		c := deliveryChain{w: w, b: b, e: e, to: &p.Dests[i], at: w.clock.Add(20 * time.Millisecond)}
		switch n := fate; {
		case n < 0:
			c.addAttempts(event.Delivered, 1)
		case n < failed:
			c.addAttempts(event.Failed, 1+4*(n&1))
		case n < failed+retrying:
			c.addAttempts(event.Retrying, 3)
		case n < failed+retrying+retried:
			c.addAttempts(event.Delivered, 2+n&1)
		case n < failed+retrying+retried+replayed:
			c.addAttempts(event.Delivered, 1)
			c.replay()
		default:
			c.addAttempts(event.Delivered, 1)
		}
	}
	if fate >= outOf-rejected-unrouted-duplicates-tests-received {
		w.receipt(b, e)
	}
}

// deliveryChain appends the attempts of one delivery.
type deliveryChain struct {
	w   *generator
	b   *rows
	e   *event.Event
	to  *Destination
	at  time.Time
	run string
}

// addAttempts appends the outcomes of n attempts, of which the last has the status.
func (c *deliveryChain) addAttempts(status event.Status, n int) {
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

// replay appends the outcome of a replay on the same day.
func (c *deliveryChain) replay() {
	day := int(c.w.clock.Sub(c.w.from) / (24 * time.Hour))
	c.run, c.at = c.w.runs[min(day, len(c.w.runs)-1)], c.at.Add(time.Hour)
	c.attempt(event.TriggerReplay, event.Delivered, "")
}

func (c *deliveryChain) attempt(trigger event.Trigger, status event.Status, reason event.Reason) {
	w, b, x := c.w, c.b, c.w.rnd.Uint64()
	a := event.Attempt{
		ID: w.attempts.NewUnbounded(c.e.ID.Partition()), StartedAt: c.at, Trigger: trigger, OK: true, Code: 200,
		RemoteIP: documentationAddr(7),
		URL:      c.to.URL, Method: "POST",
		Duration: time.Duration(15+x%200) * time.Millisecond, TTFB: time.Duration(10+x%190) * time.Millisecond,
		ResponseBody:   accepted,
		ResponseHeader: "Content-Type: application/json\nServer: nginx\nX-Request-Id: 1\n",
	}
	if status != event.Delivered {
		a.OK, a.Code, a.ErrorCode, a.ErrorMessage, a.ResponseBody = false, 503, event.CodeHTTPStatus,
			"answered 503 Service Unavailable", errorPage
	}
	if x>>60 == 0 && !a.OK { // one of 16 failures has no answer
		a.Code, a.ErrorCode, a.ErrorMessage, a.ResponseBody, a.ResponseHeader = 0, event.CodeTimeout,
			"no answer within 15 s", nil, ""
		a.Duration = 15 * time.Second
	}
	a.RequestHeader = w.requestHeader(b, c.e, trigger)
	b.attemptRows = append(b.attemptRows, a)
	o := event.Outcome{
		Event: c.e.ID, Account: c.e.Account, Endpoint: c.e.Endpoint, Dest: c.to.ID, Type: c.e.Type, Status: status,
		Reason: reason, Code: a.Code,
		At: c.at.Add(a.Duration), Run: c.run, Attempt: &b.attemptRows[len(b.attemptRows)-1],
	}
	if status == event.Retrying {
		o.NextAt = c.at.Add(time.Hour)
	}
	b.Outcomes = append(b.Outcomes, o)
	b.attempts++
}

// requestHeader returns the header lines of a delivery: the received ones and the relay's own.
func (w *generator) requestHeader(b *rows, e *event.Event, trigger event.Trigger) event.Lines {
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
	return event.Lines(b.copyText(w.scratch))
}

// receipt appends a processing receipt for the event.
func (w *generator) receipt(b *rows, e *event.Event) {
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

// Bodies of the destinations' answers.
var (
	accepted  = []byte(`{"ok":true}`)
	errorPage = []byte("<html><head><title>503 Service Temporarily " +
		"Unavailable</title></head><body><center><h1>503</h1></center></body></html>")
)

// documentationAddr returns an address in 203.0.113.0/24, which is reserved for documentation (RFC 5737).
func documentationAddr(n byte) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, n}) }

func appendNumber(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
