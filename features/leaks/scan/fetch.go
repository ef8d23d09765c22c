package scan

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/eventrelay/relay/features/leaks/intake"
)

const (
	maxRedirects = 5
	// maxTries bounds the requests for one URL that answers 429 or 503.
	maxTries = 3
	// maxNested is how often a body may be compressed, its Content-Encoding included.
	maxNested = 3
)

// result is what a fetch has found.
type result struct {
	task   task
	url    *url.URL // after redirects
	status int
	header http.Header
	body   []byte
	read   int64 // bytes of the body after decompression

	skipped     string // why it was not, or not completely, looked at
	cut         bool   // the beginning of the body is there
	overTotal   bool   // Budget.Total is used up
	blocked     bool   // an address was refused
	unreachable bool

	secrets    []Found
	next       []task
	named      int // bytes of the URLs that the body names
	dropped    int // links and scripts that the body names beyond maxNext and maxNextBytes
	unfollowed []unfollowed
}

// unfollowed is a link that is not followed.
type unfollowed struct {
	url    *url.URL
	reason string
}

// fetch requests a URL, follows its redirects, and reads what it names. It runs beside other fetches.
func (r *run) fetch(t task) *result {
	res := &result{task: t, url: t.url}
	ctx := r.ctx
	limit := r.scanner.deps.Budget.Body
	if t.kind == sourceMap || t.kind == guessedMap {
		r.maps.Lock()
		defer r.maps.Unlock()
		limit = r.scanner.deps.Budget.Map
	}
	tries := 1
	for hops := 0; ; {
		again, target := r.request(ctx, res, limit)
		switch {
		case again && tries < maxTries:
			tries++
		case again:
			res.skipped = skippedRefused
			return res
		case target == nil:
			if res.skipped == "" || res.cut {
				r.read(res)
			}
			return res
		case hops == maxRedirects || !r.allows(target):
			res.skipped = skippedRedirect
			return res
		default:
			hops++
			res.url = target
		}
	}
}

// allows reports whether a redirect may be followed.
func (r *run) allows(u *url.URL) bool {
	return u.Scheme == "https" && u.User == nil && u.Host != "" && r.target.Verified(hostOf(u))
}

// request sends one request for res.url and reads the answer. again means that the website refuses it for the moment;
// redirect is where it leads, nil if it does not.
func (r *run) request(ctx context.Context, res *result, limit int64) (again bool, redirect *url.URL) {
	if err := r.scanner.pace.wait(ctx, hostOf(res.url)); err != nil {
		res.skipped = skippedBudget
		return false, nil
	}
	if !r.target.Verified(hostOf(res.url)) { // it may have ended while the request waited
		res.skipped = skippedNotVerified
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.scanner.deps.Budget.Request)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, res.url.String(), nil)
	if err != nil {
		res.skipped = skippedUnreachable
		return false, nil
	}
	req.Header.Set("User-Agent", r.scanner.deps.UserAgent)
	req.Header.Set("Accept", "*/*")
	req.Header.Set("Accept-Encoding", "gzip")
	answer, err := r.scanner.deps.Transport.RoundTrip(req)
	r.scanner.metrics.countRequest(answer, err)
	if err != nil {
		res.fail(err)
		return false, nil
	}
	defer answer.Body.Close()
	res.status, res.header = answer.StatusCode, answer.Header
	switch {
	case res.status == http.StatusTooManyRequests, res.status == http.StatusServiceUnavailable:
		r.scanner.pace.slowDown(hostOf(res.url))
		return true, nil
	case res.status >= 300 && res.status < 400 && answer.Header.Get("Location") != "":
		target, err := res.url.Parse(answer.Header.Get("Location"))
		if err != nil {
			res.skipped = skippedRedirect
			return false, nil
		}
		target.Fragment = ""
		return false, target
	case res.status != http.StatusOK:
		res.skipped = skippedStatus
		return false, nil
	}
	res.readBody(answer, limit, &r.left)
	return false, nil
}

// fail records why there is no answer.
func (res *result) fail(err error) {
	res.unreachable = true
	switch {
	case isBlocked(err):
		res.blocked, res.skipped = true, skippedUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		res.skipped = skippedTimeout
	default:
		res.skipped = skippedUnreachable
	}
}

// errTotal means that Budget.Total is used up.
var errTotal = errors.New("the bytes of the scan are used up")

// meter counts what is read against the bytes of the scan.
type meter struct {
	from io.Reader
	left *atomic.Int64
	read *int64
}

func (m meter) Read(p []byte) (int, error) {
	if m.left.Load() <= 0 {
		return 0, errTotal
	}
	n, err := m.from.Read(p[:min(len(p), 32<<10)])
	m.left.Add(-int64(n))
	*m.read += int64(n)
	return n, err
}

// readBody reads and decompresses a body, at most limit bytes of it and of each layer.
func (res *result) readBody(answer *http.Response, limit int64, left *atomic.Int64) {
	compressed := strings.EqualFold(answer.Header.Get("Content-Encoding"), "gzip")
	var body []byte
	var err error
	if compressed {
		body, err = res.gunzip(io.LimitReader(answer.Body, limit), limit, left)
	} else {
		body, err = res.readAll(answer.Body, limit, left)
	}
	for nested := 1; err == nil && nested < maxNested && isGzip(body); nested++ {
		inner, innerErr := res.gunzip(bytes.NewReader(body), limit, left)
		if errors.Is(innerErr, intake.ErrGzipHeader) { // two bytes that look like gzip
			break
		}
		body, err = inner, innerErr
	}
	res.body = body
	switch {
	case err == nil:
	case errors.Is(err, errTotal):
		res.skipped, res.cut, res.overTotal = skippedBudget, true, true
	case errors.Is(err, errTooLarge):
		res.skipped, res.cut = skippedTooLarge, true
	case errors.Is(err, context.DeadlineExceeded):
		res.skipped, res.cut = skippedTimeout, len(body) > 0
	default:
		res.skipped, res.cut = skippedUnreadable, len(body) > 0
	}
}

func isGzip(b []byte) bool { return len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8 }

// errTooLarge means that a body is longer than its limit.
var errTooLarge = errors.New("the body is too large")

func (res *result) gunzip(from io.Reader, limit int64, left *atomic.Int64) ([]byte, error) {
	z, err := intake.NewGzipReader(from)
	if err != nil {
		return nil, err
	}
	return res.readAll(z, limit, left)
}

// readAll reads at most limit bytes. With an error it returns what was read before it.
func (res *result) readAll(from io.Reader, limit int64, left *atomic.Int64) ([]byte, error) {
	var buf bytes.Buffer
	_, err := io.Copy(&buf, io.LimitReader(meter{from, left, &res.read}, limit+1))
	if int64(buf.Len()) > limit {
		buf.Truncate(int(limit))
		return buf.Bytes(), errTooLarge
	}
	return buf.Bytes(), err
}
