package destination

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// Batches gathers the events of a target that leave together.
type Batches struct {
	Now   func() time.Time
	Wait  time.Duration // from the first event of a batch until it leaves
	Bytes int           // of a batch, unless its only event is larger
	Count int           // of its events; 0: no bound
	// Halve is for how long the halves of a batch are sent that was refused for its content, so that one refused event
	// does not fail the others; 0: they are not.
	Halve time.Duration

	mu   sync.Mutex // guards next
	next *Batch     // gathers; nil: the next event begins another one
}

// Batch is events that leave together. The delivery that began it sends it for all of them.
type Batch struct {
	Lines    bytes.Buffer  // one JSON object each
	Count    int           // of lines
	Half     string        // suffix of webhook-id: which events of the whole batch these are, such as -1-50; "": all
	Farthest http.Header   // of the event with the most hops
	Attempt  event.Attempt // what all attempts have in common: set by the function that sends the batch
	result   Result
	first    int           // index of its first event in the whole batch
	members  []member      // by event of the whole batch
	full     chan struct{} // closed when it has a size or count at which it leaves
}

// member is an event of a batch.
type member struct {
	answer  chan *Batch // gets the last request that contained it; has room for it
	current func() bool // see Message.Current
	header  http.Header
}

// Send adds an event to a batch, calls send for a batch that begins with it, and returns when the batch was sent. The
// time in which events gather is not that of the attempt.
func (x *Batches) Send(
	ctx context.Context, m Message, header http.Header, line []byte, send func(*Batch) Result,
) Result {
	b, first, waits := x.join(line, header, m.Current)
	if first {
		x.gather(ctx, b)
		if b.dropOutdated(); b.Count > 0 {
			x.send(b, send)
		}
	}
	select {
	case b = <-waits:
	case <-ctx.Done(): // the node stops
		select {
		case b = <-waits:
		default:
			m.Attempt.ErrorMessage = "the node stopped before the batch was sent"
			return Result{Classification: Classification{Class: Retryable, Code: event.CodeInternal}}
		}
	}
	if b.result.Outdated {
		return b.result
	}
	own := *m.Attempt
	*m.Attempt = b.Attempt
	m.Attempt.ID, m.Attempt.StartedAt, m.Attempt.Trigger, m.Attempt.Trace = own.ID, own.StartedAt, own.Trigger, own.Trace
	m.Attempt.TransformationVersion = own.TransformationVersion
	if b.Attempt.RequestHeader == "" {
		m.Attempt.RequestHeader = own.RequestHeader
	}
	result := b.result
	result.Waited = max(x.Now().Sub(own.StartedAt)-b.Attempt.Duration, 0)
	return result
}

// maxRequests is how many requests a batch makes: enough to isolate two events of 200 that a receiver refuses, or one
// of 1,000.
const maxRequests = 32

// send sends a batch, and after a refusal of its content the halves of it, those of the halves, and so on. Each event
// has its answer as soon as no smaller request follows. After any other failure nothing more is sent.
func (x *Batches) send(b *Batch, send func(*Batch) Result) {
	began, parts, delivered := x.Now(), []*Batch{b}, false
	for requests := 1; len(parts) > 0; requests++ {
		part := parts[0]
		// The answer of the larger batch stands, but may be due to an event of another half.
		if requests > 1 && (x.Now().Sub(began) >= x.Halve || !b.current(parts)) {
			for _, rest := range parts {
				rest.retry()
				b.answer(rest)
			}
			return
		}
		parts = parts[1:]
		part.Attempt = event.Attempt{} // a half began with that of the larger batch
		part.result = send(part)
		delivered = delivered || part.result.Class == Delivered
		refused := refusesContent(part.Attempt.Code) && part.Attempt.RetryAfter == 0 && !part.result.Disable
		switch {
		case refused && part.Count > 1 && x.Halve > 0 && requests+len(parts)+2 <= maxRequests:
			parts = append(b.halves(part), parts...)
			continue
		case refused && part.Count > 1 && delivered:
			part.retry() // most of its events are good: they meet others
		case !refused && part.result.Class != Delivered: // the receiver hangs, or asks to wait
			for _, rest := range parts {
				rest.Attempt, rest.result = part.Attempt, part.result
				b.answer(rest)
			}
			parts = nil
		}
		b.answer(part)
	}
}

// retry makes the result one that is retried, if the policy allows another attempt.
func (b *Batch) retry() { b.result.Class, b.result.Reason = Retryable, "" }

// answer gives the events of a part of b its result.
func (b *Batch) answer(part *Batch) {
	for _, m := range b.members[part.first : part.first+part.Count] {
		m.answer <- part
	}
}

// current reports whether the events of parts of b may still be sent as they were when they joined.
func (b *Batch) current(parts []*Batch) bool {
	for _, part := range parts {
		for _, m := range b.members[part.first : part.first+part.Count] {
			if m.current != nil && !m.current() {
				return false
			}
		}
	}
	return true
}

// dropOutdated gives back the events that must not be sent any more as they were when they joined: one has expired or
// its destination has changed, for example.
func (b *Batch) dropOutdated() {
	dropped := make(map[int]bool)
	for i, m := range b.members {
		switch {
		case m.current != nil && !m.current():
			m.answer <- &Batch{result: Result{Outdated: true}}
			dropped[i] = true
		case b.Farthest == nil || hopsOf(m.header) > hopsOf(b.Farthest):
			b.Farthest = m.header
		}
	}
	if len(dropped) == 0 {
		return
	}
	all, lines := b.members, bytes.SplitAfter(b.Lines.Bytes(), []byte{'\n'})
	b.members, b.Lines = nil, bytes.Buffer{}
	for i, m := range all {
		if !dropped[i] {
			b.members = append(b.members, m)
			b.Lines.Write(lines[i])
		}
	}
	b.Count = len(b.members)
}

// refusesContent reports whether a status rejects the content of the request (RFC 9110, 15.5).
func refusesContent(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnprocessableEntity
}

// halves are two batches with the events of a part of b.
func (b *Batch) halves(part *Batch) []*Batch {
	lines, halves := bytes.SplitAfter(part.Lines.Bytes(), []byte{'\n'}), make([]*Batch, 2)
	for i, from := range []int{0, part.Count / 2} {
		n := part.Count / 2
		if i == 1 {
			n = part.Count - from
		}
		h := &Batch{Count: n, Farthest: b.Farthest, first: part.first + from,
			Half: fmt.Sprintf("-%d-%d", part.first+from+1, part.first+from+n), Attempt: part.Attempt, result: part.result}
		for _, line := range lines[from : from+n] {
			h.Lines.Write(line)
		}
		halves[i] = h
	}
	return halves
}

// join adds a line to the batch that gathers, or begins one, and returns what gets its answer.
func (x *Batches) join(
	line []byte, header http.Header, current func() bool,
) (b *Batch, first bool, waits chan *Batch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b = x.next; b != nil && b.Lines.Len()+len(line) > x.Bytes {
		close(b.full)
		b = nil
	}
	if b == nil {
		b = &Batch{full: make(chan struct{})}
	}
	b.Lines.Write(line)
	first, waits = b.Count == 0, make(chan *Batch, 1)
	b.Count, b.members = b.Count+1, append(b.members, member{waits, current, header})
	if x.next = b; b.Lines.Len() >= x.Bytes || b.Count == x.Count {
		x.next = nil
		close(b.full)
	}
	return b, first, waits
}

func hopsOf(h http.Header) int { return event.Hops(h[headerHops]) }

// gather waits until the batch is full or its time is over.
func (x *Batches) gather(ctx context.Context, b *Batch) {
	timer := time.NewTimer(x.Wait)
	defer timer.Stop()
	select {
	case <-b.full:
	case <-timer.C:
	case <-ctx.Done():
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.next == b {
		x.next = nil
	}
}

// Array is the batch as a JSON array, as large as Lines and a byte.
func (b *Batch) Array() []byte {
	text := bytes.ReplaceAll(bytes.TrimSpace(b.Lines.Bytes()), []byte{'\n'}, []byte{','}) // strings have no line breaks
	return append(append([]byte{'['}, text...), ']')
}

// Header builds the headers of a request with the events of a batch: those of the destination, and the relay's own. Its
// hops and path are those of the event with the most hops.
func (b *Batch) Header(name string, work *event.Work, body []byte, target *Opened, userAgent string, now time.Time,
) http.Header {
	h := http.Header{HeaderUserAgent: {userAgent}, "Content-Type": {"application/json"},
		headerEndpoint: {work.Event.Endpoint}, headerDestination: {work.Dest},
		headerHops: b.Farthest[headerHops], headerPath: b.Farthest[headerPath]}
	for _, f := range target.Header {
		h[safeName(f.Name)] = []string{f.Value}
	}
	if target.Format == config.FormatCloudEvents {
		h[contentType] = []string{cloudEventsType}
	}
	target.sign(func(name, value string) { h[name] = []string{value} }, name, now, Content{Body: body},
		ownNames, standardNames)
	return h
}

// EventHeader returns the headers of an event beside its body in JSON: those of a delivery but signatures, which cover
// the bytes of the body.
func (m Message) EventHeader(target *Opened) http.Header {
	h := m.Header(target, "")
	for name := range h {
		if strings.HasPrefix(strings.ToLower(name), "webhook-") || strings.HasPrefix(name, prefixRelay+prefixWebhook) {
			delete(h, name)
		}
	}
	delete(h, HeaderUserAgent)
	return h
}

// line is an event in JSON.
type line struct {
	ID          string            `json:"id"`
	Type        string            `json:"type,omitempty"`
	EndpointID  string            `json:"endpoint_id"`
	ReceivedAt  web.Time          `json:"received_at"`
	Attempt     int               `json:"attempt"`
	Headers     map[string]string `json:"headers"`
	Body        json.RawMessage   `json:"body,omitempty"`        // JSON
	BodyEncoded *[]byte           `json:"body_base64,omitempty"` // any other
}

// Line is the event in JSON, with those headers, or in the JSON format of CloudEvents. It ends with a line break.
func Line(m Message, header http.Header) []byte {
	if m.Content.Format == config.FormatCloudEvents {
		return append(m.Content.Body, '\n')
	}
	ev := m.Work.Event
	x := line{ID: ev.ID.Text(id.Event), Type: ev.Type, EndpointID: ev.Endpoint, ReceivedAt: web.Time(ev.ReceivedAt()),
		Attempt: m.Work.Attempt, Headers: map[string]string{}}
	for name, values := range header {
		x.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	if x.Body = m.Content.Body; !web.IsPortable(x.Body) { // the receiver's parser would reject the whole batch
		encoded := append([]byte{}, x.Body...)
		x.Body, x.BodyEncoded = nil, &encoded
	}
	return web.Encode(x)
}
