// Package relay is a client of the API of EventRelay. Its types, calls and iterators (api.gen.go) are made from the
// OpenAPI document. Written by hand are retries, errors, batches, streams and the verification of deliveries.
//
// A call that fails for a moment is repeated: reads after 429, 5xx and a broken connection; writes only with an
// Idempotency-Key, which the calls that take one get unless an option sets it.
package relay

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxAnswer  = 64 << 20 // bytes of an answer
	maxBackoff = 10 * time.Second
)

// Client calls the API. New makes one; its fields may be changed before the first call.
type Client struct {
	BaseURL  string
	key      *string       // the API key; what prints the client shows an address
	HTTP     *http.Client  // without a time-out of its own, which would end streams
	MaxTries int           // of a call
	MaxWait  time.Duration // a longer Retry-After ends the call with its error
	Timeout  time.Duration // of one try, and of the answer to a stream
}

// New returns a client of the relay at baseURL, such as https://relay.example.com.
func New(baseURL, key string) *Client {
	return &Client{BaseURL: strings.TrimSuffix(baseURL, "/"), key: &key, HTTP: &http.Client{}, MaxTries: 5,
		MaxWait: time.Minute, Timeout: time.Minute}
}

// APIError is an answer other than 2xx. ErrorDetail has its type, code, parameter, message and request id.
type APIError struct {
	Status     int
	RetryAfter time.Duration // 0 if the service does not say
	ErrorDetail
	kept bool // the same key gets the same answer, or its key could not be remembered
}

func (e *APIError) Error() string {
	return fmt.Sprintf("%d %s: %s (request %s)", e.Status, e.Type, e.Message, e.RequestID)
}

// temporary reports whether a call that failed with err may succeed later.
func temporary(err error) bool {
	var refused *APIError
	if errors.As(err, &refused) {
		return refused.Status == http.StatusTooManyRequests || refused.Status >= 500
	}
	var broken *url.Error // of http.Client.Do
	return errors.As(err, &broken) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Option changes one call.
type Option func(*request)

// WithIdempotencyKey names a write: a repeat with the same key within 24 hours changes nothing.
func WithIdempotencyKey(key string) Option {
	return func(r *request) { r.header.Set("Idempotency-Key", key) }
}

// WithIfMatch makes a change fail with the type conflict if the endpoint no longer has this ETag.
func WithIfMatch(etag string) Option { return func(r *request) { r.header.Set("If-Match", etag) } }

// AnswerHeader stores the headers of the answer, such as the ETag of an endpoint.
func AnswerHeader(into *http.Header) Option { return func(r *request) { r.answer = into } }

// Ptr returns a pointer to a value, for optional fields.
func Ptr[T any](value T) *T { return &value }

// request is a call with all of its tries.
type request struct {
	method, url string
	header      http.Header
	body        []byte
	answer      *http.Header
}

func (c *Client) newRequest(method, path string, params, body any, options []Option) (*request, error) {
	query, err := queryOf(params)
	if err != nil {
		return nil, fmt.Errorf("write the parameters of %s: %w", path, err)
	}
	r := &request{method: method, url: strings.TrimSuffix(c.BaseURL, "/") + path + query, header: http.Header{
		"Authorization": {"Bearer " + *c.key}, "Accept": {"application/json"}, "User-Agent": {"eventrelay-go"}}}
	if body != nil {
		r.header.Set("Content-Type", "application/json")
		if r.body, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("write the body of %s: %w", path, err)
		}
	}
	for _, option := range options {
		option(r)
	}
	return r, nil
}

// Call makes any call of the API, for what the methods cannot say, such as null in a change. params and body are
// written as JSON is, and the answer is decoded into result. It is repeated like the methods.
func (c *Client) Call(ctx context.Context, method, path string, params, body, result any, options ...Option) error {
	r, err := c.newRequest(method, path, params, body, options)
	if err != nil {
		return err
	}
	text, err := c.try(ctx, r)
	for try := 1; err != nil; try++ {
		if try >= c.MaxTries || !temporary(err) || !r.repeatable(err) || !c.wait(ctx, try, err) {
			return err
		}
		text, err = c.try(ctx, r)
	}
	if err = json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return nil
}

// try makes one request and reads its answer.
func (c *Client) try(ctx context.Context, r *request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	} else if err != nil {
		err = &url.Error{Op: r.method, URL: r.url, Err: err}
	}
	return text, err
}

// send makes one request. Answers other than 2xx are an APIError.
func (c *Client) send(ctx context.Context, r *request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.Header = r.header.Clone()
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if r.answer != nil {
		*r.answer = resp.Header
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what is missing shows as a shorter message
	var answer Error
	if json.Unmarshal(text, &answer) != nil || answer.Error.Type == "" {
		answer.Error.Message = string(text[:min(len(text), 200)]) // not of the relay, but of a proxy
	}
	answer.Error.RequestID = cmp.Or(answer.Error.RequestID, resp.Header.Get("X-Request-Id"))
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 without the header
	kept := resp.Header.Get("Idempotent-Replayed") != "" || resp.Header.Get("Idempotency-Status") != ""
	return nil, &APIError{resp.StatusCode, time.Duration(seconds) * time.Second, answer.Error, kept}
}

// repeatable reports whether the request may be sent again after err.
func (r *request) repeatable(err error) bool {
	var refused *APIError
	kept := errors.As(err, &refused) && refused.kept
	return r.method == http.MethodGet || r.header.Get("Idempotency-Key") != "" && !kept
}

// wait waits before the next try and reports whether to make it.
func (c *Client) wait(ctx context.Context, try int, err error) bool {
	backoff := min(100*time.Millisecond<<min(try, 10), maxBackoff)
	backoff = backoff/2 + mathrand.N(backoff/2)
	var refused *APIError
	if errors.As(err, &refused) {
		backoff = max(backoff, refused.RetryAfter)
	}
	if backoff > max(c.MaxWait, maxBackoff) {
		return false
	}
	select {
	case <-time.After(backoff):
		return true
	case <-ctx.Done():
		return false
	}
}

const keyed, keyless = true, false

// call makes a call of api.gen.go. With key it gets an Idempotency-Key.
func call[T any](ctx context.Context, c *Client, key bool, method, path string, params, body any,
	options []Option) (*T, error) {
	if key {
		options = append([]Option{WithIdempotencyKey(rand.Text())}, options...)
	}
	result := new(T)
	if err := c.Call(ctx, method, path, params, body, result, options...); err != nil {
		return nil, err
	}
	return result, nil
}

// rows yields the rows of all pages, from a copy of params that next moves on.
func rows[P, R any](params P, next func(*P) (page []R, more bool, err error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		at := params
		for more := true; more; {
			var page []R
			var err error
			if page, more, err = next(&at); err != nil {
				var none R
				yield(none, err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

func pathOf(format string, values ...string) string {
	for _, value := range values {
		format = strings.Replace(format, "%s", url.PathEscape(value), 1)
	}
	return format
}

// queryOf writes the members of params as a query: lists as repeated parameters, objects as name[member].
func queryOf(params any) (string, error) {
	text, err := json.Marshal(params)
	var members map[string]any
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	query := url.Values{}
	for name, value := range members {
		switch value := value.(type) {
		case []any:
			for _, element := range value {
				query.Add(name, fmt.Sprint(element))
			}
		case map[string]any:
			for member, element := range value {
				query.Set(name+"["+member+"]", fmt.Sprint(element))
			}
		default:
			query.Set(name, fmt.Sprint(value))
		}
	}
	return strings.TrimSuffix("?"+query.Encode(), "?"), err
}
