package limit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/eventrelay/relay/pkg/certfile"
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
func (c Config) options(timeout time.Duration) (*redis.Options, error) {
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
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.ContextTimeoutEnabled = timeout, timeout, timeout, true
	o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = poolSize, poolSize, 1
	o.MinIdleConns = 0
	return o, nil
}

// client returns a client for exchanges that take at most timeout, and a function that ends its dials; a nil client
// without a URL.
func (c Config) client(timeout time.Duration) (client *redis.Client, cancelDials func()) {
	o, err := c.options(timeout)
	if o == nil || err != nil { // Validate has reported the error
		return nil, func() {}
	}
	silenceLibrary.Do(func() { redis.SetLogger(noLog{}) })
	d, cancelDials := newDialer(o.TLSConfig, c.Dial, timeout)
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

// callClaims is call for claims: within Config.ClaimTimeout, unless their own breaker is open. That lets one caller
// through when a probe is due.
func (l *Limiter) callClaims(ctx context.Context, exchange func(context.Context) error) error {
	if l.claims == nil || !l.claimsBreaker.admit(l.elapsed()) {
		return errUnavailable
	}
	err := exchangeWithin(ctx, l.cfg.ClaimTimeout, exchange)
	switch {
	case err == nil:
		if l.claimsBreaker.close() {
			l.log.Info("redis answers claims again")
		}
	case ctx.Err() != nil:
	default:
		l.metrics.errors.WithLabelValues("claim").Inc()
		if l.claimsBreaker.failed(l.elapsed()) {
			l.log.Warn("redis is unavailable, claims of keys fail", "error", explainTLS(err))
		}
	}
	return err
}

// exchangeWithin bounds an exchange.
func exchangeWithin(ctx context.Context, timeout time.Duration, exchange func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	err := exchange(limited)
	// A dial that began for an earlier caller may have failed before now: repeat the exchange with a new one.
	for old := (dialError{}); errors.As(err, &old) && old.at.Before(began); {
		err = exchange(limited)
	}
	return err
}

// exchange is call without the question whether the breaker is open.
func (l *Limiter) exchange(ctx context.Context, kind string, exchange func(context.Context) error) error {
	err := exchangeWithin(ctx, l.cfg.Timeout, exchange)
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

// dialTimeout bounds connecting, unless one exchange may take longer. A dial continues in the background when the
// caller's time is up, so that the client connects even to a server whose TLS handshake takes longer than one exchange.
const dialTimeout = time.Second

// dialer connects for the client. For a failed dial it returns a connection whose first use fails: after an error of
// its dialer go-redis does not dial for up to a second after Redis is available again, and starts a goroutine that
// dials on its own. The breaker alone must decide when to retry.
type dialer struct {
	connect    connector
	timeout    time.Duration
	limiterCtx context.Context // ends with the limiter
}

// connector opens a connection.
type connector func(ctx context.Context, network, addr string) (net.Conn, error)

// newDialer returns a dialer for exchanges that take at most that long, and a function that ends its dials. The dialer
// connects with connect. If that is nil, it connects through the network, with TLS if c is not nil.
func newDialer(c *tls.Config, connect connector, exchange time.Duration) (d *dialer, cancelDials func()) {
	switch {
	case connect != nil:
	case c != nil:
		secure := &tls.Dialer{Config: c}
		connect = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := secure.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return secureConn{conn}, nil
		}
	default:
		connect = (&net.Dialer{}).DialContext
	}
	d = &dialer{connect: connect, timeout: max(dialTimeout, exchange)}
	d.limiterCtx, cancelDials = context.WithCancel(context.Background())
	return d, cancelDials
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	defer context.AfterFunc(d.limiterCtx, cancel)()
	if d.limiterCtx.Err() != nil { // AfterFunc calls cancel on another goroutine, which may be too late
		cancel()
	}
	conn, err := d.connect(ctx, network, addr)
	if err != nil {
		return failedConn{dialError{text: explainTLS(err).Error(), at: time.Now()}}, nil
	}
	return conn, nil
}

// dialError says why a dial failed. It does not unwrap: the client would report only the inner error.
type dialError struct {
	text string
	at   time.Time
}

func (e dialError) Error() string { return e.text }

// failedConn is a connection whose dial failed.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)       { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)      { return 0, c.err }
func (failedConn) Close() error                     { return nil }
func (failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (failedConn) SetDeadline(time.Time) error      { return nil }
func (failedConn) SetReadDeadline(time.Time) error  { return nil }
func (failedConn) SetWriteDeadline(time.Time) error { return nil }

// Ping measures one PING to the configured Redis over a connection of its own, without the time to connect. Without a
// URL it fails.
func Ping(ctx context.Context, cfg Config) (took time.Duration, err error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	client, cancelDials := cfg.client(cfg.Timeout)
	defer cancelDials()
	if client == nil {
		return 0, errUnavailable
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	for range 2 { // the first connects
		began := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			return 0, fmt.Errorf("ping redis: %w", explainTLS(err))
		}
		took = time.Since(began)
	}
	return took, nil
}

// Settings of Redis that decide what it loses.
type Settings struct {
	Eviction string  // maxmemory-policy; empty if it could not be read
	Volatile bool    // neither save nor appendonly: a restart loses all keys
	Memory   float64 // how much of maxmemory is used, 0 to 1; 0 without a limit
}

// ReadSettings reads settings of Redis. What it does not show, because of its ACL or because it is another program that
// speaks its protocol, is left empty.
func ReadSettings(ctx context.Context, cfg Config) (s Settings, err error) {
	client, cancelDials := cfg.client(cfg.Timeout)
	defer cancelDials()
	if client == nil {
		return s, errUnavailable
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if info, err := client.Info(ctx, "memory").Result(); err == nil {
		values := map[string]string{}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			values[name] = value
		}
		s.Eviction = values["maxmemory_policy"]
		used, _ := strconv.ParseFloat(values["used_memory"], 64)
		if most, _ := strconv.ParseFloat(values["maxmemory"], 64); most > 0 {
			s.Memory = used / most
		}
	}
	save, saveErr := client.ConfigGet(ctx, "save").Result()
	appends, appendErr := client.ConfigGet(ctx, "appendonly").Result()
	if saveErr == nil && appendErr == nil && len(save) > 0 && len(appends) > 0 {
		s.Volatile = save["save"] == "" && appends["appendonly"] == "no"
	}
	return s, nil
}

// setTLS makes conf, that of a rediss:// URL, trust CAFile and present the client certificate. conf is nil for other
// URLs, which have no use for either.
func (c Config) setTLS(conf *tls.Config) (err error) {
	if conf == nil {
		if c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" {
			return errors.New("certificates for Redis need TLS: write rediss:// in RELAY_REDIS_URL")
		}
		return nil
	}
	if c.CAFile != "" {
		if conf.RootCAs, err = certfile.Roots(c.CAFile); err != nil {
			return fmt.Errorf("redis CA file: %w", err)
		}
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("redis client certificate: the certificate and its key are needed, or neither")
	case c.CertFile != "":
		if err := certfile.SetClient(conf, c.CertFile, c.KeyFile); err != nil {
			return fmt.Errorf("redis client certificate: %w", err)
		}
	}
	return nil
}

// Endpoint returns where Redis uses TLS; ok is false if it does not.
func (c Config) Endpoint() (e certfile.Endpoint, ok bool) {
	o, err := c.options(c.Timeout)
	if o == nil || err != nil || o.TLSConfig == nil {
		return e, false
	}
	return certfile.Endpoint{Addr: o.Addr, TLS: o.TLSConfig}, true
}

// explainTLS adds to an error of a connection the setting to correct.
func explainTLS(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate of Redis is not accepted; renew it, or name the file with its root certificate "+
			"in RELAY_REDIS_CA_FILE: %w", err)
	case isAlert(err):
		return fmt.Errorf("redis refuses the client certificate of RELAY_REDIS_CERT_FILE, or wants one: %w", err)
	}
	return err
}

// secureConn is a connection with TLS 1.3 or 1.2. With 1.3 a server refuses the client certificate after the handshake:
// it sends an alert and closes the connection. If a write then fails, Write returns the alert, which says why.
type secureConn struct{ net.Conn }

func (c secureConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		// The connection is closed: Read does not wait.
		if _, alert := c.Read(make([]byte, 1)); isAlert(alert) {
			return n, alert
		}
	}
	return n, err
}

// isAlert reports whether an error is an alert of the server.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" // of crypto/tls
}
