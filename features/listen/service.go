package listen

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/command/cli"
)

const (
	silence     = 45 * time.Second // without a byte of the stream, which has one every 15 s
	requestTime = 30 * time.Second
	longestLine = 32 << 20 // of the stream: a body in base64 and its headers
	maxAnswer   = 64 << 20
)

// Refusal ends the program: another try is of no use.
type Refusal struct {
	Status  int // of the answer; 0: it is none
	Message string
}

func (e *Refusal) Error() string { return e.Message }

// busy says that the service asks to come back later.
type busy struct {
	error
	after time.Duration
}

func pauseOf(err error) time.Duration {
	if b, ok := errors.AsType[busy](err); ok {
		return b.after
	}
	return 0
}

// service is the API of a relay, as far as it is needed.
type service struct {
	base, key, endpoint string
	client              *http.Client
}

func newService(base, key, endpoint string) (*service, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("the address of the relay must be http:// or https:// with a host")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // one of the environment would read the key and the events
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the key is for this address alone
	}}
	return &service{strings.TrimSuffix(base, "/"), key, url.PathEscape(endpoint), client}, nil
}

// get sends a request and returns an answer with the status 200.
func (s *service) get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header = header
	req.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := s.client.Do(req)
	if err != nil {
		if reason, ok := errors.AsType[*url.Error](err); ok {
			err = reason.Err // without the URL
		}
		return nil, fmt.Errorf("%s cannot be reached: %w", s.base, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var refused struct{ Error struct{ Message string } }
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, longestLine)) // the status says enough
	_ = json.Unmarshal(raw, &refused)
	text := fmt.Sprintf("the service answered %d: %.200s", resp.StatusCode, refused.Error.Message)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return nil, busy{errors.New(text), time.Duration(seconds) * time.Second}
	}
	return nil, &Refusal{resp.StatusCode, text}
}

// FindEndpoint returns the id of the endpoint with this id or name.
func FindEndpoint(ctx context.Context, base, key, name string) (string, error) {
	if strings.HasPrefix(name, "ep_") {
		return name, nil
	}
	s, err := newService(base, key, "")
	if err != nil {
		return "", cli.UsageError{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var all []cli.Named
	for cursor := ""; ; {
		resp, err := s.get(ctx, "/v1/endpoints?limit=100&cursor="+url.QueryEscape(cursor), http.Header{})
		if err != nil {
			return "", err
		}
		var page struct {
			Data []cli.Named
			Next string `json:"next_cursor"`
		}
		err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&page)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return "", fmt.Errorf("list the endpoints: %w", err)
		}
		all = append(all, page.Data...)
		if cursor = page.Next; cursor == "" {
			return cli.ByName("endpoint", name, all)
		}
	}
}

// stream is a connection to the event stream.
type stream struct {
	body   io.Closer
	lines  *bufio.Scanner
	cancel context.CancelCauseFunc
	ctx    context.Context
}

// item is an item of the stream.
type item struct {
	id, kind string
	data     []byte
}

var errSilent = errors.New("nothing came from the service for a while")

// open connects to the stream, after the cursor if there is one.
func (s *service) open(ctx context.Context, cursor string) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	header := http.Header{"Accept": {"text/event-stream"}}
	if cursor != "" {
		header.Set("Last-Event-Id", cursor)
	}
	x := &stream{cancel: cancel, ctx: ctx}
	timer := time.AfterFunc(requestTime, func() { cancel(errSilent) })
	defer timer.Stop()
	resp, err := s.get(ctx, "/v1/endpoints/"+s.endpoint+"/stream", header) //nolint:bodyclose // close does
	if err != nil {
		defer cancel(nil)
		return nil, x.cause(err)
	}
	x.body, x.lines = resp.Body, bufio.NewScanner(resp.Body)
	x.lines.Buffer(nil, longestLine)
	return x, nil
}

// cause is why reading has failed: that the time was over, or the error.
func (x *stream) cause(err error) error {
	if errors.Is(context.Cause(x.ctx), errSilent) {
		return errSilent
	}
	return err
}

func (x *stream) close() {
	x.cancel(nil)
	_ = x.body.Close()
}

// next returns the next item. It fails if nothing comes for long.
func (x *stream) next() (i item, err error) {
	timer := time.AfterFunc(silence, func() { x.cancel(errSilent) })
	defer timer.Stop()
	for x.lines.Scan() {
		timer.Reset(silence)
		name, value, _ := bytes.Cut(x.lines.Bytes(), []byte(": "))
		switch string(name) {
		case "id":
			i.id = string(value)
		case "event":
			i.kind = string(value)
		case "data":
			i.data = bytes.Clone(value)
		case "":
			if i.data != nil {
				return i, nil
			}
		}
	}
	if err := x.lines.Err(); err != nil {
		return i, x.cause(fmt.Errorf("the connection was lost: %w", err))
	}
	return i, errors.New("the service closed the stream")
}

// complete reads the body of an event that is too large for the stream. Its method is empty if it was erased.
func (s *service) complete(ctx context.Context, e *wire.StreamEvent) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	resp, err := s.get(ctx, "/v1/events/"+url.PathEscape(e.ID), http.Header{})
	if refused := (*Refusal)(nil); errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		e.Method = ""
		return nil
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var raw struct {
		Body     string     `json:"body"`
		Encoding string     `json:"body_encoding"`
		Erased   *time.Time `json:"payload_erased_at"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&raw); err != nil {
		return fmt.Errorf("read the event %s: %w", e.ID, err)
	}
	if raw.Erased != nil {
		e.Method = ""
		return nil
	}
	if e.Body = []byte(raw.Body); raw.Encoding == "base64" {
		e.Body, err = base64.StdEncoding.DecodeString(raw.Body)
	}
	return err
}
