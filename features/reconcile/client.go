package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// pace is the pause between two requests of an endpoint: 4 a second are a fraction of what the providers allow.
	pace = 250 * time.Millisecond
	// maxAnswer bounds an answer, in bytes: a page of perPage events.
	maxAnswer = 8 << 20
	// perPage is the most that a provider puts on a page, and maxPages bounds the pages of a pass.
	perPage, maxPages = 100, 1000
	// requestTimeout bounds a request with its answer.
	requestTimeout = 30 * time.Second
	// maxTries is how often a request is made that the provider could not answer, and maxPause the longest time until
	// then that a provider may ask for. After more, the pass ends and a later one begins again.
	maxTries = 5
	maxPause = 2 * time.Minute
)

// client asks the API of a provider for one endpoint.
type client struct {
	http       http.RoundTripper
	turns      chan struct{} // of the node: each answer in memory has one
	header     http.Header
	credential string
	rights     string // what the credential has to allow
}

// refusedError is an answer that asking again does not change.
type refusedError struct{ message string }

func (e *refusedError) Error() string { return e.message }

// ask makes a request, and again where a later one may be answered. It decodes the answer into value unless that is
// nil.
func (c *client) ask(ctx context.Context, method, address string, value any) (header http.Header, err error) {
	pause := wait.Backoff{First: time.Second, Longest: maxPause}
	for try := range maxTries {
		var after time.Duration
		if header, after, err = c.once(ctx, method, address, value); err == nil {
			return header, wait.For(ctx, pace)
		}
		if refused := (*refusedError)(nil); errors.As(err, &refused) || after > maxPause || try == maxTries-1 {
			break
		}
		if err := wait.For(ctx, max(after, pause.After(try))); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// once makes a request. After an error it returns how long the provider wants to be left alone.
func (c *client) once(ctx context.Context, method, address string, value any) (
	_ http.Header, after time.Duration, _ error) {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return nil, 0, &refusedError{"the address of the API is not valid"}
	}
	req.Header = c.header.Clone()
	resp, err := c.http.RoundTrip(req) // follows no redirects: they would take the credential along
	if err != nil {
		return nil, 0, fmt.Errorf("%s cannot be reached: %s", req.URL.Host, egress.Message(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("the answer of %s ended early: %s", req.URL.Host, egress.Message(err))
	case len(body) > maxAnswer:
		return nil, 0, &refusedError{fmt.Sprintf("an answer of %s has more than %d MiB", req.URL.Host, maxAnswer>>20)}
	case resp.StatusCode == http.StatusTooManyRequests, isRateLimit(resp):
		return nil, retryAfter(resp.Header), fmt.Errorf("%s answers %d: too many requests", req.URL.Host, resp.StatusCode)
	case resp.StatusCode >= 500:
		return nil, retryAfter(resp.Header), fmt.Errorf("%s answers %d", req.URL.Host, resp.StatusCode)
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, 0, &refusedError{fmt.Sprintf(
			"%s does not accept the credential (401): it is wrong, has expired or was revoked", req.URL.Host)}
	case resp.StatusCode == http.StatusForbidden:
		return nil, 0, &refusedError{fmt.Sprintf("%s does not allow it with this credential (403): it needs %s",
			req.URL.Host, c.rights)}
	case resp.StatusCode >= 300:
		return nil, 0, &refusedError{fmt.Sprintf("%s answers %d for %s", req.URL.Host, resp.StatusCode, req.URL.Path)}
	case value == nil:
		return resp.Header, 0, nil
	}
	if json.Unmarshal(body, value) != nil {
		return nil, 0, errOdd
	}
	return resp.Header, 0, nil
}

// page is a list of at most perPage elements. A longer one is refused before it is in memory.
type page[T any] []T

func (p *page[T]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	switch first, err := d.Token(); {
	case err != nil:
		return err
	case first == nil: // null
		return nil
	case first != json.Delim('['):
		return errOdd
	}
	for d.More() {
		var x T
		if len(*p) == perPage {
			return errOdd
		}
		if err := d.Decode(&x); err != nil {
			return err
		}
		*p = append(*p, x)
	}
	return nil
}

// errOdd is an answer that could be of something else than the provider.
var errOdd = &refusedError{"the answer of the provider is not what its documentation describes"}

// isRateLimit recognizes GitHub's 403 for too many requests:
// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
func isRateLimit(resp *http.Response) bool {
	return resp.StatusCode == http.StatusForbidden &&
		(resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-Ratelimit-Remaining") == "0")
}

// retryAfter returns how long a provider asks to wait: Retry-After in seconds, or X-RateLimit-Reset as a Unix time.
func retryAfter(h http.Header) time.Duration {
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s >= 0 {
		return time.Duration(s) * time.Second
	}
	if at, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
		return max(0, time.Until(time.Unix(at, 0)))
	}
	return 0
}

// at returns an address below the address of the API.
func at(base, path string, query url.Values) string {
	if len(query) == 0 {
		return base + path
	}
	return base + path + "?" + query.Encode()
}
