package limit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// poolSize bounds the connections. Further exchanges wait for one within Config.Timeout.
const poolSize = 32

// errUnavailable means that Redis is not configured, or that the breaker is open.
var errUnavailable = errors.New("redis is unavailable")

var errURL = errors.New("want redis://[user:password@]host[:port][/database], rediss://… or unix://…")

// silenceLibrary keeps go-redis from logging to stderr; this package counts and logs errors itself.
var silenceLibrary sync.Once

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// options parses the URL and sets the limits of this package; nil without a URL.
func (c Config) options() (*redis.Options, error) {
	if c.URL == "" {
		return nil, c.setTLS(nil)
	}
	o, err := redis.ParseURL(c.URL)
	if err != nil {
		return nil, errURL
	}
	if err := c.setTLS(o.TLSConfig); err != nil {
		return nil, err
	}
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.DialerRetries, o.MaxRetries = 1, -1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.ContextTimeoutEnabled = c.Timeout, c.Timeout, c.Timeout, true
	o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = poolSize, poolSize, 1
	o.MinIdleConns = 0
	return o, nil
}

// client returns a client for the URL, and a function that ends its dials; a nil client without a URL.
func (c Config) client() (client *redis.Client, cancelDials func()) {
	o, err := c.options()
	if o == nil || err != nil { // Validate has reported the error
		return nil, func() {}
	}
	silenceLibrary.Do(func() { redis.SetLogger(noLog{}) })
	d, cancelDials := newDialer(o.TLSConfig, c.Dial, c.Timeout)
	o.Dialer = d.dial
	return redis.NewClient(o), cancelDials
}

// call makes one exchange with Redis within Config.Timeout, unless the breaker is open. If the caller cancels it, that
// does not count as a failure of Redis.
func (l *Limiter) call(ctx context.Context, kind string, exchange func(context.Context) error) error {
	if l.client == nil || l.breaker.isOpen() {
		return errUnavailable
	}
	return l.exchange(ctx, kind, exchange)
}

// exchange is call without the question whether the breaker is open.
func (l *Limiter) exchange(ctx context.Context, kind string, exchange func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	began := time.Now()
	err := exchange(limited)
	// A dial that began for an earlier caller may have failed before now: repeat the exchange with a new one.
	for old := (dialError{}); errors.As(err, &old) && old.at.Before(began); {
		err = exchange(limited)
	}
	switch {
	case err == nil:
		l.breaker.succeeded()
	case ctx.Err() != nil:
	default:
		l.metrics.errors.WithLabelValues(kind).Inc()
		if l.breaker.failed(l.elapsed()) {
			l.log.Warn("redis is unavailable, this node limits for itself", "error", explainTLS(err))
			l.wakeUp() // to end the lease period, and to probe
		}
	}
	return err
}

// ignoreNil returns nil for the error that says that a key does not exist.
func ignoreNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// split3 splits at the first two colons.
func split3(s string) (a, b, c string) {
	a, rest, _ := strings.Cut(s, ":")
	b, c, _ = strings.Cut(rest, ":")
	return a, b, c
}
