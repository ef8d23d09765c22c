package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// server serves a handler on a listener until it is told to stop, then lets requests finish.
type server struct {
	listener    net.Listener
	handler     http.Handler
	certificate *certificate // nil: plain HTTP
	drain       func()       // ends requests that would not end by themselves; nil = none
	log         *slog.Logger
	// readTime and writeTime bound the reading of a request and the writing of its answer; 0 = handlers do.
	readTime, writeTime time.Duration
	connections         int // at once; 0 = maxConnections
}

// maxConnections is how many connections clients may hold at once; a new one takes the place of one without a request,
// or waits. Each costs about 20 KB, and one of the files that the process may open, of which half are left for
// deliveries, engines and tables.
func maxConnections() int {
	const most = 16_384
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return most
	}
	return int(min(most, max(files.Cur/2, 1)))
}

// Run serves until ctx ends and then waits for the requests in flight, at most drain.
func (s *server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.handler,
		// Against clients that send their header, or nothing after it, byte by byte. Bodies have their own limit.
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       s.readTime,
		WriteTimeout:      s.writeTime,
		IdleTimeout:       2 * time.Minute,
		// Above the 64 KB that handlers judge, so that most oversized requests get an answer in our own shape.
		MaxHeaderBytes: 256 << 10,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	watchRequests(srv)
	if s.drain != nil {
		srv.RegisterOnShutdown(s.drain)
	}
	listener := newLimitListener(s.listener, cmp.Or(s.connections, maxConnections()))
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var stopped error
	wg.Go(func() {
		<-ctx.Done()
		limit, done := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer done()
		stopped = srv.Shutdown(limit)
	})
	var err error
	if s.certificate != nil {
		wg.Go(func() { _ = s.certificate.Run(ctx) }) // it ends with ctx alone
		srv.TLSConfig = s.certificate.config()
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
