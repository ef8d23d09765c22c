package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	eventStream = "text/event-stream"
	// maxStreams is how many streams of one key this node serves.
	maxStreams = 5
	// defaultKeepAlive is the longest silence: proxies take a longer one for a dead connection.
	defaultKeepAlive = 15 * time.Second
	// streamTick is how often a stream looks whether its key and its endpoint are still there.
	streamTick = 500 * time.Millisecond
	// streamWriteTimeout is how long a client may take for what was written to it before the stream is closed.
	streamWriteTimeout = 30 * time.Second
	// streamRetryLimit is for how long a stream goes on while events cannot be read.
	streamRetryLimit = 30 * time.Second
)

// Why a stream ends.
const (
	endKeyRevoked      = "key_revoked"
	endEndpointDeleted = "endpoint_deleted"
	endShutdown        = "shutdown"
)

// openStreams are counted by key.
type openStreams struct {
	draining chan struct{} // closed when they have to end
	once     sync.Once

	mu    sync.Mutex     // guards count
	count map[string]int // by key
}

func (s *openStreams) drain() { s.once.Do(func() { close(s.draining) }) }

// enter counts a stream of a key.
func (s *openStreams) acquire(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[key] >= maxStreams {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: 5 * time.Second,
			Message: "the key has " + strconv.Itoa(maxStreams) + " streams already; close one of them"}
	}
	s.count[key]++
	return nil
}

func (s *openStreams) release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[key]--; s.count[key] == 0 {
		delete(s.count, key)
	}
}

// streams serves events as they are accepted.
type streams struct {
	*core
	feed      *feed.Feed
	keys      Keys
	keepAlive time.Duration // the longest silence; 0 = 15 s
	open      openStreams
}

// streamEvents sends the events of an endpoint as they are accepted (server-sent events), until the client leaves or
// must not see them any more. Each has a cursor, from which the next stream goes on.
func (a *streams) streamEvents(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	ep, err := a.endpointInPath(r, key)
	if err != nil {
		return err
	}
	if err := checkAccept(r); err != nil {
		return err
	}
	from, err := lastEventID(r, ep.ID)
	if err != nil {
		return err
	}
	if err := a.open.acquire(key.ID); err != nil {
		return err
	}
	defer a.open.release(key.ID)
	watcher, err := a.feed.Watch(r.Context(), ep.Account, ep.ID, partitionsOf(ep), from)
	if err != nil {
		return web.Away(err, "events cannot be followed at the moment; try again")
	}
	defer watcher.Close()
	text, _ := bearer(r)
	s := &sse{streams: a, w: w, out: http.NewResponseController(w), watcher: watcher, endpoint: ep.ID, key: text}
	s.writeHeaders()
	if r.Method == http.MethodHead {
		return nil
	}
	return s.run(r.Context())
}

// partitionsOf are those in which events of the endpoint may be.
func partitionsOf(ep *config.Endpoint) []int32 {
	return append([]int32{ep.Partition}, ep.FormerPartitions...)
}

// checkAccept judges Accept: nothing else is answered here.
func checkAccept(r *http.Request) error {
	accept := strings.Join(r.Header["Accept"], ",")
	if strings.TrimSpace(accept) == "" {
		return nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil || kind != eventStream && kind != "text/*" && kind != "*/*" {
			continue
		}
		if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
			return nil
		}
	}
	return web.Invalid("accept", "is %.100q, but the stream is %s", accept, eventStream)
}

// lastEventID is where the client says it has come to; nil when it begins.
func lastEventID(r *http.Request, endpoint string) (*feed.Cursor, error) {
	const name = "Last-Event-ID"
	values := r.Header.Values(name)
	if len(values) == 0 || values[0] == "" {
		return nil, nil
	}
	c, err := feed.ParseCursor(endpoint, values[0])
	if err != nil || len(values) > 1 {
		return nil, web.Invalid(name, "is not the id of an event of this endpoint's stream; begin without it")
	}
	return &c, nil
}

// sse is one stream.
type sse struct {
	streams   *streams
	w         http.ResponseWriter
	out       *http.ResponseController
	watcher   *feed.Watcher
	endpoint  string
	key       string // as text: it is judged again and again
	lastWrite time.Time
	buf       bytes.Buffer
}

// begin writes the headers.
func (s *sse) writeHeaders() {
	h := s.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // proxies pass on what they have
	s.w.WriteHeader(http.StatusOK)
}

// run writes events until the end. It returns nil: the answer has begun, and what breaks off is resumed.
func (s *sse) run(ctx context.Context) error {
	s.writeFrame("ready", s.watcher.Cursor().Encode(s.endpoint), map[string]string{"endpoint_id": s.endpoint})
	if s.flush() != nil {
		return nil
	}
	failing := time.Time{}
	for {
		items, err := s.watcher.Next(ctx, streamTick)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, feed.ErrStopped):
			s.writeEnd(endShutdown)
			return nil
		case err == nil:
			failing = time.Time{}
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > streamRetryLimit:
			s.writeEnd(endShutdown)
			return nil
		}
		if reason := s.endReason(ctx); reason != "" {
			s.writeEnd(reason)
			return nil
		}
		for i := range items {
			if s.writeItem(&items[i]); s.buf.Len() >= maxBufferedBytes && s.flush() != nil {
				return nil
			}
		}
		if len(items) == 0 && time.Since(s.lastWrite) >= cmp.Or(s.streams.keepAlive, defaultKeepAlive) {
			s.buf.WriteString(": keep-alive\n\n")
		}
		if s.flush() != nil {
			return nil
		}
		if err != nil && wait.For(ctx, streamTick) != nil {
			return nil
		}
	}
}

// maxBufferedBytes is how much is written before the client is waited for, in bytes.
const maxBufferedBytes = 256 << 10

// over is why the stream must end now, before anything more is written; empty when it goes on. While this node cannot
// confirm keys nothing is written.
func (s *sse) endReason(ctx context.Context) string {
	for waited := time.Now(); ; {
		select {
		case <-s.streams.open.draining:
			return endShutdown
		default:
		}
		_, err := s.streams.keys.Authenticate(s.key)
		switch {
		case err == nil:
			return s.followEndpoint(ctx)
		case !errors.Is(err, config.ErrLease):
			return endKeyRevoked
		case time.Since(waited) > streamRetryLimit, wait.For(ctx, streamTick) != nil:
			return endShutdown
		}
	}
}

// gone is why there is nothing more to watch; it follows the endpoint to another partition.
func (s *sse) followEndpoint(ctx context.Context) string {
	ep, presence := s.streams.config.Endpoint(s.endpoint)
	if presence != config.Present {
		return endEndpointDeleted
	}
	// What cannot be followed now is tried again at the next look; nothing of it is lost until then.
	_ = s.watcher.Follow(ctx, partitionsOf(ep)...)
	return ""
}

func (s *sse) writeEnd(reason string) {
	s.writeFrame("end", "", map[string]string{"reason": reason})
	_ = s.flush() // it is over anyway
}

// streamView is an event in a stream.
type streamView struct {
	ID         string      `json:"id"`
	ReceivedAt web.Time    `json:"received_at"`
	Type       *string     `json:"type"`
	Method     string      `json:"method"`
	Path       string      `json:"path"`
	Headers    [][2]string `json:"headers"`
	Body       []byte      `json:"body"` // base64; empty when it is truncated
	Size       int         `json:"size"`
	Truncated  bool        `json:"truncated"`
}

type gapView struct {
	From   web.Time `json:"from"`
	Reason string   `json:"reason"`
}

func (s *sse) writeItem(x *feed.Item) {
	cursor := x.Cursor.Encode(s.endpoint)
	if x.Gap != nil {
		s.writeFrame("gap", cursor, gapView{web.Time(x.Gap.From), x.Gap.Reason})
		return
	}
	s.writeFrame("event", cursor, streamViewOf(x.Event))
}

func streamViewOf(e *feed.Event) streamView {
	v := streamView{
		ID: e.ID.Text(id.Event), ReceivedAt: web.Time(e.ReceivedAt()), Type: orNull(e.Type), Method: e.Method, Path: "/",
		Headers: headerLines(e.Header), Body: e.Body, Size: e.Size, Truncated: e.Truncated(),
	}
	if v.Body == nil {
		v.Body = []byte{}
	}
	if e.Query != "" {
		v.Path = "/?" + e.Query
	}
	return v
}

func headerLines(fields []event.Field) [][2]string {
	lines := make([][2]string, len(fields))
	for i, f := range fields {
		lines[i] = [2]string{f.Name, f.Value}
	}
	return lines
}

// frame appends one event of the stream. JSON has no line ends, so its data is one line.
func (s *sse) writeFrame(kind, cursor string, data any) {
	if cursor != "" {
		s.buf.WriteString("id: " + cursor + "\n")
	}
	s.buf.WriteString("event: " + kind + "\ndata: ")
	enc := json.NewEncoder(&s.buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(data) // plain values into memory
	s.buf.WriteString("\n")
}

// flush writes what there is to the client, who has streamWriteTimeout to take it.
func (s *sse) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	// Where there is no deadline, as in tests without a connection, there is no slow client either.
	_ = s.out.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
	_, err := s.w.Write(s.buf.Bytes())
	if err == nil {
		err = s.out.Flush()
	}
	if s.buf.Reset(); s.buf.Cap() > 4*maxBufferedBytes {
		s.buf = bytes.Buffer{}
	}
	s.lastWrite = time.Now()
	return err
}
