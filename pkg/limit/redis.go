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

// poolSize bounds the connections that claims use at once; the next waits within its time-out.
const poolSize = 32

// errUnavailable says that Redis is not configured, or was not asked because the last exchanges failed.
var errUnavailable = errors.New("redis is away")

var errURL = errors.New("want redis://[user:password@]host[:port][/database], rediss://… or unix://…")

// silenceLibrary keeps the library from writing to stderr; what goes wrong is counted and logged here.
var silenceLibrary sync.Once

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// options is what the URL says, with the limits of this package over it; nil without a URL.
func (c Config) options() (*redis.Options, error) {
	if c.URL == "" {
		return nil, nil
	}
	o, err := redis.ParseURL(c.URL)
	if err != nil {
		return nil, errURL
	}
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.DialerRetries, o.MaxRetries = 1, -1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.ContextTimeoutEnabled = c.Timeout, c.Timeout, c.Timeout, true
	o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = poolSize, poolSize, 1
	o.MinIdleConns = 0
	return o, nil
}

// client returns nil without a URL.
func (c Config) client() (client *redis.Client, hangUp func()) {
	o, err := c.options()
	if o == nil || err != nil { // judged by Validate
		return nil, func() {}
	}
	silenceLibrary.Do(func() { redis.SetLogger(noLog{}) })
	d, hangUp := newDialer(o.TLSConfig, c.Dial)
	o.Dialer = d.dial
	return redis.NewClient(o), hangUp
}

// call makes one exchange with Redis, bounded in time, unless the breaker is open. What the caller
// cancelled itself says nothing about Redis.
func (l *Limiter) call(ctx context.Context, what string, exchange func(context.Context) error) error {
	if l.client == nil || l.breaker.isOpen() {
		return errUnavailable
	}
	return l.exchange(ctx, what, exchange)
}

func (l *Limiter) exchange(ctx context.Context, what string, exchange func(context.Context) error) error {
	short, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	began := time.Now()
	err := exchange(short)
	// A dial may have failed after its caller had gone, and says nothing of now.
	for old := (dialError{}); errors.As(err, &old) && old.at.Before(began); {
		err = exchange(short)
	}
	switch {
	case err == nil:
		l.breaker.succeeded()
	case ctx.Err() != nil:
	default:
		l.metrics.errors.WithLabelValues(what).Inc()
		if l.breaker.failed(l.elapsed()) {
			l.log.Warn("redis is away: this node limits for itself", "error", err)
		}
	}
	return err
}

// ignoreNil makes "no such key" an answer.
func ignoreNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// split3 cuts at the first two colons.
func split3(s string) (a, b, c string) {
	a, rest, _ := strings.Cut(s, ":")
	b, c, _ = strings.Cut(rest, ":")
	return a, b, c
}
