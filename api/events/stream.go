package events

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	eventStream = "text/event-stream"
	// maxStreams is how many streams one key may have open on this node.
	maxStreams = 5
	// defaultKeepAlive is the longest time without data; proxies close connections that are silent for longer.
	defaultKeepAlive = 15 * time.Second
	// streamTick is how often a stream checks whether its key and its endpoint still exist.
	streamTick = 500 * time.Millisecond
	// streamWriteTimeout is how long a client may take to read the bytes already written before the stream is closed.
	streamWriteTimeout = 30 * time.Second
	// streamRetryLimit is how long a stream retries while events cannot be read.
	streamRetryLimit = 30 * time.Second
)

// Reasons in the event end.
const (
	endKeyRevoked      = "key_revoked"
	endEndpointDeleted = "endpoint_deleted"
	endShutdown        = "shutdown"
)

// openStreams counts the open streams of each key.
type openStreams struct {
	draining chan struct{} // closed when all streams must end
	once     sync.Once

	mu    sync.Mutex     // guards count
	count map[string]int // by key
}

func (s *openStreams) drain() { s.once.Do(func() { close(s.draining) }) }

// acquire counts a new stream of a key, or returns the 429.
func (s *openStreams) acquire(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[key] >= maxStreams {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: 5 * time.Second,
			Message: "the API key already has " + strconv.Itoa(maxStreams) +
				" open streams on this node; close one of them"}
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
	*area
	keepAlive time.Duration // longest time without data; 0 = 15 s
	open      openStreams
}

// streamEvents sends the events of an endpoint as server-sent events while they are accepted, until the client
// leaves, its key is revoked, the endpoint is deleted or the node stops. Each event has a cursor, from which the next
// stream can resume.
func (a *streams) streamEvents(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	ep, err := a.EndpointInPath(r, key)
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
	watcher, err := a.Feed.Watch(r.Context(), ep.Account, ep.ID, partitionsOf(ep), from)
	if err != nil {
		return web.ServiceUnavailable(err, "the event log cannot be read at the moment; try again")
	}
	defer watcher.Close()
	text, _ := web.Bearer(r)
	s := &sse{streams: a, w: w, out: http.NewResponseController(w), watcher: watcher, endpoint: ep.ID, key: text,
		by: a.ViewerOf(key)}
	s.writeHeaders()
	if r.Method == http.MethodHead {
		return nil
	}
	return s.run(r.Context())
}

// partitionsOf returns the partitions that may hold events of the endpoint.
func partitionsOf(ep *config.Endpoint) []int32 {
	return append([]int32{ep.Partition}, ep.FormerPartitions...)
}

// checkAccept refuses an Accept header that excludes text/event-stream.
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
	return web.Invalid("accept", "is %.100q, but this stream is only available as %s", accept, eventStream)
}

// lastEventID returns the position from which the client resumes, nil if the request has none: the stream then starts
// with the next event.
func lastEventID(r *http.Request, endpoint string) (*feed.Cursor, error) {
	const name = "Last-Event-ID"
	values := r.Header.Values(name)
	if len(values) == 0 || values[0] == "" {
		return nil, nil
	}
	c, err := feed.ParseCursor(endpoint, values[0])
	if err != nil || len(values) > 1 {
		return nil, web.Invalid(name, "is not the id of an event of this endpoint's stream; start again without it")
	}
	return &c, nil
}

// sse is one stream of server-sent events.
type sse struct {
	streams   *streams
	w         http.ResponseWriter
	out       *http.ResponseController
	watcher   *feed.Watcher
	endpoint  string
	key       string // the key as text, for repeated checks
	by        frame.Viewer
	lastWrite time.Time
	buf       bytes.Buffer
}

// writeHeaders starts the response.
func (s *sse) writeHeaders() {
	h := s.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // nginx passes data on at once
	s.w.WriteHeader(http.StatusOK)
}

// run writes events until the stream ends. It returns nil, because the response has begun; the client resumes after
// a failure.
func (s *sse) run(ctx context.Context) error {
	s.writeFrame("ready", s.watcher.Cursor().Encode(s.endpoint), map[string]string{"endpoint_id": s.endpoint})
	if s.flush() != nil {
		return nil
	}
	failingSince := time.Time{}
	for {
		items, err := s.watcher.Next(ctx, streamTick)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, feed.ErrStopped):
			s.writeEnd(endShutdown)
			return nil
		case err == nil:
			failingSince = time.Time{}
		case failingSince.IsZero():
			failingSince = time.Now()
		case time.Since(failingSince) > streamRetryLimit:
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

// maxBufferedBytes is how many bytes are buffered before they are flushed to the client.
const maxBufferedBytes = 256 << 10

// endReason returns why the stream must end before anything more is written, empty if it continues. While this node
// cannot confirm keys, it waits, up to streamRetryLimit, and nothing is written.
func (s *sse) endReason(ctx context.Context) string {
	for start := time.Now(); ; {
		select {
		case <-s.streams.open.draining:
			return endShutdown
		default:
		}
		_, err := s.streams.Config.Authenticate(s.key)
		switch {
		case err == nil:
			return s.followEndpoint(ctx)
		case !errors.Is(err, config.ErrLease):
			return endKeyRevoked
		case time.Since(start) > streamRetryLimit, wait.For(ctx, streamTick) != nil:
			return endShutdown
		}
	}
}

// followEndpoint follows the endpoint to a new partition, and returns the reason to end if the endpoint was deleted.
func (s *sse) followEndpoint(ctx context.Context) string {
	ep, presence := s.streams.Config.Endpoint(s.endpoint)
	if presence != entity.Present {
		return endEndpointDeleted
	}
	// On an error the next check tries again; no event is lost until then.
	_ = s.watcher.Follow(ctx, partitionsOf(ep)...)
	return ""
}

func (s *sse) writeEnd(reason string) {
	s.writeFrame("end", "", map[string]string{"reason": reason})
	_ = s.flush() // the stream ends anyway
}

func (s *sse) writeItem(x *feed.Item) {
	cursor := x.Cursor.Encode(s.endpoint)
	if x.Gap != nil {
		s.writeFrame("gap", cursor, wire.StreamGap{From: web.Time(x.Gap.From), Reason: x.Gap.Reason})
		return
	}
	v := streamViewOf(x.Event)
	v.HeadersBase64, v.Body = base64HeaderValues(s.by, x.Event.Header), s.by.MaskTokens(v.Body)
	s.writeFrame("event", cursor, v)
}

func streamViewOf(e *feed.Event) wire.StreamEvent {
	v := wire.StreamEvent{
		ID: e.ID.Text(id.Event), ReceivedAt: web.Time(e.ReceivedAt()), Type: frame.OrNull(e.Type), Method: e.Method,
		Path:    "/",
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

// writeFrame buffers one server-sent event. JSON contains no line breaks, so its data is one line.
func (s *sse) writeFrame(kind, cursor string, data any) {
	if cursor != "" {
		s.buf.WriteString("id: " + cursor + "\n")
	}
	s.buf.WriteString("event: " + kind + "\ndata: ")
	s.buf.Write(s.by.MaskTokens(web.Encode(data))) // ends with a line break
	s.buf.WriteString("\n")
}

// flush sends the buffered bytes to the client, which has streamWriteTimeout to read them.
func (s *sse) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	// Tests without a connection support no deadline; they have no slow client either.
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
