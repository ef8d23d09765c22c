package egress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// destinationKey and poolKey are the keys of context values of a request.
type (
	destinationKey struct{}
	poolKey        struct{}
)

// WithDestination returns a context for the requests of the destination with this id. Requests of two destinations
// never share a connection at the same time.
func WithDestination(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, destinationKey{}, id)
}

// origin is the scheme and host that connections are made to.
type origin struct{ scheme, host string }

// pool is a set of connections to one origin. net/http keeps connections per host, so roundTrip replaces the host in
// the URL by the pool's name.
type pool struct {
	owner    *originPools
	dest     string        // id of the destination that uses it; valid while inFlight > 0
	name     string        // host:port in the URL that net/http sees
	address  string        // host:port to connect to
	inFlight atomic.Int64  // changes with the lock of pools, as the other fields; connections read it without
	ended    atomic.Uint64 // number of requests that have ended
	read     atomic.Int64  // bytes of response bodies that callers have read
	timedOut bool          // the context of a request ended before its response did
	freedAt  time.Time
	keepFor  time.Duration // after freedAt its idle connections are used for this long
}

// originPools are the pools of one origin. A destination with requests in flight has a pool of its own. When they have
// ended, the next destination of the origin takes over the pool with its idle connections. So a hanging destination
// uses no connection, HTTP/2 stream or flow control window of another, and many destinations with little traffic share
// a few connections.
type originPools struct {
	used map[string]*pool // by destination
	free []*pool          // most recently used last
}

// pools are all pools of a Transport.
type pools struct {
	mu        sync.Mutex // guards the fields below and all pools
	origins   map[origin]*originPools
	created   uint64 // number of pools ever created
	lastSweep time.Time
}

// acquire returns the pool for one more request of a destination. The caller must release it.
func (ps *pools) acquire(u *url.URL, dest string) *pool {
	o := origin{u.Scheme, u.Host}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	owner := ps.origins[o]
	if owner == nil {
		owner = &originPools{used: make(map[string]*pool)}
		ps.origins[o] = owner
	}
	p := owner.used[dest]
	if p == nil {
		now := time.Now()
		if p = owner.takeFree(now); p == nil {
			p = ps.newPool(u, owner)
		}
		p.dest, owner.used[dest] = dest, p
		ps.sweep(now)
	}
	p.inFlight.Add(1)
	return p
}

// release ends a request. A pool in which a request timed out is not reused, because its connections may be dead; they
// close after idleTimeout.
func (ps *pools) release(p *pool, timedOut bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.timedOut = p.timedOut || timedOut
	p.ended.Add(1)
	if p.inFlight.Add(-1) > 0 {
		return
	}
	delete(p.owner.used, p.dest)
	if !p.timedOut {
		p.freedAt = time.Now()
		p.owner.free = append(p.owner.free, p)
	}
}

// takeFree returns the most recently used free pool whose idle connections have not expired, or nil.
func (o *originPools) takeFree(now time.Time) *pool {
	for last := len(o.free) - 1; last >= 0; last-- {
		p := o.free[last]
		o.free[last] = nil
		o.free = o.free[:last]
		if now.Sub(p.freedAt) < p.keepFor {
			return p
		}
	}
	return nil
}

// heedKeepAlive sets how long the pool's idle connections are used, from a Keep-Alive header. A request on a connection
// that the server closes at the same moment fails with a reset, and it is unknown whether it was processed. So an idle
// connection is not used in the last second before the server closes it. Node.js and Apache close theirs after 5 s and
// say so (RFC 2068, 19.7.1.1).
//
// Connections are used for at least a second: otherwise each request to a server that announces 0 s would leave an idle
// connection behind.
func (ps *pools) heedKeepAlive(p *pool, header []string) {
	keepFor := idleTimeout
	for parameter := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16)
		if err != nil || !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		keepFor = min(max(time.Duration(seconds)*time.Second-time.Second, time.Second), idleTimeout)
	}
	ps.mu.Lock()
	p.keepFor = keepFor
	ps.mu.Unlock()
}

func (ps *pools) newPool(u *url.URL, owner *originPools) *pool {
	port := u.Port()
	if port == "" && u.Scheme == "http" {
		port = "80"
	}
	port = cmp.Or(port, "443")
	ps.created++
	return &pool{
		owner: owner, address: net.JoinHostPort(u.Hostname(), port), keepFor: idleTimeout,
		name: net.JoinHostPort("pool-"+strconv.FormatUint(ps.created, 10), port),
	}
}

// sweep deletes pools whose idle connections have expired, at most once per idleTimeout.
func (ps *pools) sweep(now time.Time) {
	if now.Sub(ps.lastSweep) < idleTimeout {
		return
	}
	ps.lastSweep = now
	for o, owner := range ps.origins {
		old := 0
		for old < len(owner.free) && now.Sub(owner.free[old].freedAt) >= idleTimeout {
			old++
		}
		owner.free = append([]*pool(nil), owner.free[old:]...)
		if len(owner.free) == 0 && len(owner.used) == 0 {
			delete(ps.origins, o)
		}
	}
}

// exchange is a request over a pool and the body of its response. Closing it releases the pool.
type exchange struct {
	io.ReadCloser // the body
	pools         *pools
	pool          *pool
	ctx           context.Context
	url           url.URL // with the pool's name as host
	released      atomic.Bool
}

// release releases the pool once.
func (x *exchange) release() {
	if !x.released.Swap(true) {
		x.pools.release(x.pool, x.ctx.Err() != nil)
	}
}

// Read reads from the body.
func (x *exchange) Read(b []byte) (int, error) {
	n, err := x.ReadCloser.Read(b)
	x.pool.read.Add(int64(n))
	return n, err
}

// Close closes the body and releases the pool.
func (x *exchange) Close() error {
	err := x.ReadCloser.Close()
	x.release()
	return err
}

// roundTrip sends the request over the pool of its destination.
func (t *Transport) roundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	dest, _ := ctx.Value(destinationKey{}).(string)
	x := &exchange{pools: &t.pools, pool: t.pools.acquire(req.URL, dest), ctx: ctx, url: *req.URL}
	pooled := req.WithContext(context.WithValue(ctx, poolKey{}, x.pool))
	if x.url.Host = x.pool.name; pooled.Host == "" {
		pooled.Host = req.URL.Host
	}
	pooled.URL = &x.url
	res, err := t.inner.RoundTrip(pooled)
	if err != nil {
		x.release()
		return nil, err
	}
	if res.StatusCode < http.StatusContinue { // net/http takes 000, which says nothing (RFC 9110, 15)
		res.Body.Close()
		x.release()
		return nil, fmt.Errorf("the status %03d of the response is malformed", res.StatusCode)
	}
	if header := res.Header["Keep-Alive"]; header != nil && res.ProtoMajor == 1 {
		t.pools.heedKeepAlive(x.pool, header)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the connection, from which a read outlasts ctx. No request asks for another protocol.
		res.Body.Close()
		res.Body = http.NoBody
	}
	res.Request = req
	if res.Body == http.NoBody {
		x.release()
	} else {
		x.ReadCloser, res.Body = res.Body, x
	}
	return res, nil
}

// poolOf returns the pool in the context with which net/http dials.
func poolOf(ctx context.Context) *pool { return ctx.Value(poolKey{}).(*pool) }
