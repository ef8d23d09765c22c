package egress

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// destinationKey and poolKey are of values in a request's context.
type (
	destinationKey struct{}
	poolKey        struct{}
)

// WithDestination names the destination that the requests of the context belong to. Requests of two destinations are
// never on one connection at the same time.
func WithDestination(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, destinationKey{}, id)
}

// origin is what connections are made to.
type origin struct{ scheme, host string }

// pool is a set of connections to one origin. net/http keeps it apart from others by its name, which stands in place
// of the host in the URL that net/http sees.
type pool struct {
	owner    *originPools
	dest     string // that uses it, while inFlight > 0
	name     string // with the port
	address  string // host:port to connect to
	inFlight int
	timedOut bool // a request on it was cut short
	freedAt  time.Time
}

// originPools are the pools of one origin. While a destination has requests in flight it has a pool for itself; the
// next destination of the origin takes it over with the idle connections in it. So a destination that hangs holds no
// connection, no HTTP/2 stream and no flow control window of another, and many quiet destinations of one host need a
// few connections together.
type originPools struct {
	used map[string]*pool // by destination
	free []*pool          // the one that was used last at the end
}

// pools are all pools of a Transport.
type pools struct {
	mu        sync.Mutex // guards the rest and all pools
	origins   map[origin]*originPools
	created   uint64 // pools ever made
	lastSweep time.Time
}

// acquire returns the pool for one more request of a destination. The caller releases it.
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
	p.inFlight++
	return p
}

// release ends a request. The connections of a pool in which a request was cut short are not passed on, for they may
// be dead: they close after idleTimeout.
func (ps *pools) release(p *pool, timedOut bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.timedOut = p.timedOut || timedOut
	if p.inFlight--; p.inFlight > 0 {
		return
	}
	delete(p.owner.used, p.dest)
	if !p.timedOut {
		p.freedAt = time.Now()
		p.owner.free = append(p.owner.free, p)
	}
}

// takeFree returns the free pool that was used last, nil if it has no connections any more: then none has.
func (o *originPools) takeFree(now time.Time) *pool {
	last := len(o.free) - 1
	if last < 0 {
		return nil
	}
	p := o.free[last]
	o.free[last] = nil
	o.free = o.free[:last]
	if now.Sub(p.freedAt) >= idleTimeout {
		o.free = nil
		return nil
	}
	return p
}

func (ps *pools) newPool(u *url.URL, owner *originPools) *pool {
	port := u.Port()
	if port == "" && u.Scheme == "http" {
		port = "80"
	}
	port = cmp.Or(port, "443")
	ps.created++
	return &pool{
		owner: owner, address: net.JoinHostPort(u.Hostname(), port),
		name: net.JoinHostPort("pool-"+strconv.FormatUint(ps.created, 10), port),
	}
}

// sweep forgets pools whose connections have closed, at most once per idleTimeout.
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

// exchange is one request over a pool and the body of its response.
type exchange struct {
	io.ReadCloser // the body
	pools         *pools
	pool          *pool
	ctx           context.Context
	url           url.URL // as net/http sees it
	released      atomic.Bool
}

// release ends the exchange, once.
func (x *exchange) release() {
	if !x.released.Swap(true) {
		x.pools.release(x.pool, x.ctx.Err() != nil)
	}
}

// Close releases the pool: the response was read, or will not be.
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
	res.Request = req
	if res.Body == http.NoBody {
		x.release()
	} else {
		x.ReadCloser, res.Body = res.Body, x
	}
	return res, nil
}

// addressOf returns what the request connects to for which net/http dials.
func addressOf(ctx context.Context) string {
	return ctx.Value(poolKey{}).(*pool).address
}
