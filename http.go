package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// server serves a handler on a listener until it is told to stop, then lets requests finish.
type server struct {
	listener    net.Listener
	handler     http.Handler
	certificate *certificate // nil: plain HTTP
	drain       func()       // ends requests that would not end by themselves; nil = none
	log         *slog.Logger
}

// Run serves until ctx ends and then waits for the requests in flight, at most drain.
func (s *server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.handler,
		// Against clients that send their header, or nothing after it, byte by byte. Bodies have their own limit.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		// Above the 64 KB that handlers judge, so that most oversized requests get an answer in our own shape.
		MaxHeaderBytes: 256 << 10,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.drain != nil {
		srv.RegisterOnShutdown(s.drain)
	}
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
		err = srv.ServeTLS(s.listener, "", "")
	} else {
		err = srv.Serve(s.listener)
	}
	cancel()
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, stopped)
}

// startAdmin serves metrics and pprof where the settings say; dev tries the usual port and goes on without.
func (n *node) startAdmin() error {
	address := n.s.AdminListen
	if address == "" {
		if !n.s.embedded {
			return nil
		}
		address = "127.0.0.1:9090"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		if n.s.AdminListen != "" {
			return fmt.Errorf("listen on RELAY_ADMIN_LISTEN: %w", err)
		}
		n.log.Warn("metrics are off: the usual address is taken", "addr", address)
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	n.st.start("admin server", (&server{listener: listener, handler: mux, log: n.log}).Run)
	n.log.Info("metrics and pprof", "addr", listener.Addr().String())
	return nil
}
