package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// server serves a handler on a listener until its context ends, then lets requests finish.
type server struct {
	listener     net.Listener
	handler      http.Handler
	certificates certificates // nil: plain HTTP
	// beforeShutdown returns when clients have had the time to leave; nil = at once. Until then requests are taken, and
	// each answer closes its connection. A server that fails does not call it.
	beforeShutdown func()
	onShutdown     func()        // ends requests that would not end by themselves; nil = none
	drain          time.Duration // how long a stop waits for requests in flight
	log            *slog.Logger
	// readTime and writeTime bound the reading of a request and the writing of its answer; 0 = the handlers bound them.
	readTime, writeTime time.Duration
	connections         int            // at once; 0 = maxConnections
	proxies             []netip.Prefix // whose connections are those of many clients
}

// maxConnections returns how many client connections may be open at once: 16,384, or half of the files that the process
// may open if that is less; the other half is for deliveries and engines. A connection takes about 20 KB. Above it a
// new connection replaces an idle one, or waits.
func maxConnections() int {
	const most = 16_384
	return min(most, max(openFiles()/2, 1))
}

// Run serves until ctx ends and beforeShutdown has returned. Then it waits up to drain for requests in flight,
// and closes the connections of those that remain: one client must not use up the time that deliveries need to end.
func (s *server) Run(ctx context.Context) error {
	var stopping atomic.Bool
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if stopping.Load() {
				w.Header().Set("Connection", "close") // over HTTP/2 too: the client opens a new connection elsewhere
			}
			s.handler.ServeHTTP(w, r)
		}),
		// Bounds clients that send their header byte by byte. Handlers bound the reading of bodies.
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       s.readTime,
		WriteTimeout:      s.writeTime,
		IdleTimeout:       2 * time.Minute,
		// Above the 64 KB that handlers allow, so that most oversized headers are answered in the API's own shape.
		MaxHeaderBytes: 256 << 10,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	watchRequests(srv)
	if s.onShutdown != nil {
		srv.RegisterOnShutdown(s.onShutdown)
	}
	listener := newLimitListener(s.listener, cmp.Or(s.connections, maxConnections()), s.proxies)
	ending, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var stopped error
	wg.Go(func() {
		<-ending.Done()
		if ctx.Err() != nil && s.beforeShutdown != nil {
			stopping.Store(true)
			s.beforeShutdown()
		}
		limit, done := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
		defer done()
		if stopped = srv.Shutdown(limit); errors.Is(stopped, context.DeadlineExceeded) {
			s.log.LogAttrs(ctx, slog.LevelWarn, "stopping: requests that were still in flight are cut off",
				slog.String("addr", s.listener.Addr().String()), slog.Duration("after", s.drain))
			stopped = srv.Close()
		}
	})
	var err error
	if s.certificates != nil {
		wg.Go(func() { _ = s.certificates.Run(ending) }) // it returns no error but that of its context
		srv.TLSConfig = s.certificates.config()
		err = srv.ServeTLS(listener, "", "")
	} else {
		err = srv.Serve(listener)
	}
	cancel()
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, stopped)
}
