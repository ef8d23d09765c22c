// Package node is the wiring of a running process: what it is told, its parts in the order in which they start, and what
// serves them: HTTP with TLS, readiness, metrics, the command socket.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/dispatcher/recovery"
	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/ledger"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/usage"
	"github.com/eventrelay/relay/usage/alert"
)

// flushSmall is the longest time that rows wait in the writer of a cluster, for a reader on another node
// cannot kick it.
const flushSmall = 250 * time.Millisecond

// drain is how long a stop waits for requests in flight, in and out.
const drain = 25 * time.Second

// Node is one running process: what its parts share, and the parts.
type Node struct {
	s        Config
	log      *slog.Logger
	st       *Stack
	registry *prometheus.Registry
	stream   stream.Config
	keyring  *control.Keyring
	ids      *id.Generator
	now      func() time.Time
	policy   egress.Policy

	control  *control.Control
	limiter  *limit.Limiter
	producer *stream.Producer
	writer   *store.Writer
	reader   *store.Reader
	uses     *audit.Uses
	usage    *usage.Usage
	ledger   *ledger.Ledger // nil when it is off
	notifier *notify.Sender
	recovery *recovery.Runner // nil without the role dispatch
	trimmer  *stream.Trimmer  // as well
	first    atomic.Bool      // this node owns the first partition
	url      string
}

// URL is the public address of the node.
func (n *Node) URL() string { return n.url }

// Start starts the parts that the roles ask for, from the log upwards, and returns when the node
// takes requests.
func Start(st *Stack, s Config, log *slog.Logger, registry *prometheus.Registry) (*Node, error) {
	st.Start("heap", newHeap(os.Getenv).Run)
	keyring, err := control.NewKeyring(s.MasterKeys)
	if err != nil {
		return nil, fmt.Errorf("RELAY_MASTER_KEYS: %w", err)
	}
	n := &Node{
		s: s, log: log, st: st, registry: registry, stream: s.Stream(), keyring: keyring,
		now: clock(), policy: s.egressPolicy(),
	}
	n.ids = newIDs(n.now, n.log, n.registry)
	n.registry.MustRegister(processMetrics(s.DataDir)...)
	n.stream.Log = log
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on RELAY_LISTEN: %w", err)
	}
	n.url = s.baseURL(listener.Addr().String())
	n.policy.Self = egress.NewSelf(n.url, s.AllowedHosts)
	for _, start := range []func() error{n.startControl, n.startLimiter, n.startProducer, n.startOwn, n.startUses, n.startStore, n.startUsage, n.startLedger, n.startDispatcher, n.startAlerts} {
		if err := start(); err != nil {
			listener.Close()
			return nil, err
		}
	}
	if err := n.startHTTP(listener); err != nil {
		return nil, err
	}
	return n, errors.Join(n.startSocket(), n.startAdmin())
}

func (n *Node) startControl() error {
	ctx, cancel := context.WithTimeout(n.st.Context(), time.Minute)
	defer cancel()
	partitions, err := n.awaitLog(ctx)
	if err != nil {
		return err
	}
	n.control, err = control.New(control.Config{
		Node: n.s.NodeName, Version: n.s.Version, Partitions: partitions, BootstrapKey: n.s.BootstrapKey, BootstrapReadKey: n.s.BootstrapReadKey,
		Alone: n.s.Embedded, RetentionDays: n.s.RetentionDays,
		AdminEmail: n.s.AdminEmail, AdminPassword: n.s.AdminPassword,
	}, control.Deps{Log: n.log, Stream: n.stream, Keyring: n.keyring, Now: n.now, Metrics: n.registry})
	if err != nil {
		return err
	}
	n.st.Start("configuration", n.control.Run)
	return n.st.Ready(n.control.Ready())
}

// startLimiter needs no Redis to be there, now or later.
func (n *Node) startLimiter() error {
	var err error
	if n.limiter, err = limit.New(n.s.Limit(), limit.Deps{Log: n.log, Metrics: n.registry, Now: n.now}); err != nil {
		return err
	}
	n.st.Start("limiter", n.limiter.Run)
	return nil
}

// awaitLog returns the number of partitions. A broker that is started at the same time as this node, or again,
// is waited for until ctx ends; anything else that is wrong with the log is an error at once. A broker that hangs up
// is ending, or wants TLS or a password: it gets some time.
func (n *Node) awaitLog(ctx context.Context) (int32, error) {
	const (
		pause  = 500 * time.Millisecond
		ending = 10 * time.Second
	)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	began := time.Now()
	for told := false; ; told = true {
		partitions, err := n.checkTopics(ctx)
		var away *net.OpError
		if !errors.As(err, &away) && (!errors.Is(err, io.EOF) || time.Since(began) > ending) {
			return partitions, err
		}
		if !told {
			n.log.LogAttrs(ctx, slog.LevelWarn, "waiting for Kafka", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-tick.C:
		}
	}
}

func (n *Node) startProducer() error {
	var err error
	if n.producer, err = stream.NewProducer(n.stream, "producer"); err != nil {
		return err
	}
	n.st.Start("producer", func(ctx context.Context) error {
		<-ctx.Done()
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		defer n.producer.Close()
		return n.producer.Flush(flush)
	})
	return nil
}

// startUses gathers which API keys are used here.
func (n *Node) startUses() error {
	var err error
	if n.uses, err = audit.NewUses(n.s.NodeName, audit.UsesDeps{Log: n.log, Producer: n.producer, Now: n.now}); err != nil {
		return err
	}
	n.st.Start("uses of keys", n.uses.Run)
	return nil
}

func (n *Node) startStore() error {
	var err error
	if n.s.has("write") {
		cfg := store.WriterConfig{URL: n.s.ClickHouseURL}
		if !n.s.Embedded {
			cfg.FlushSmall = flushSmall
		}
		n.writer, err = store.NewWriter(cfg,
			store.WriterDeps{Log: n.log, Stream: n.stream, Producer: n.producer, Metrics: n.registry, InstanceID: n.instanceID(), Erased: n.control.Erased, Sync: n.s.SyncTables})
		if err != nil {
			return err
		}
		n.st.Start("store writer", n.writer.Run)
	}
	deps := store.ReaderDeps{Log: n.log, Stream: n.stream, Erased: n.control.Erased}
	if n.writer != nil {
		deps.Writer = n.writer
	}
	n.reader, err = store.NewReader(store.ReaderConfig{
		URL: n.s.ClickHouseURL, RetentionDays: n.s.RetentionDays, SearchURL: n.s.SearchURL, SearchThreads: n.s.SearchThreads, SearchIndex: n.s.SearchIndex,
	}, deps)
	if err != nil {
		return err
	}
	n.st.Start("store reader", func(ctx context.Context) error {
		<-ctx.Done()
		return n.reader.Close()
	})
	return nil
}

// startUsage counts what was used where rows are written, and says it everywhere.
func (n *Node) startUsage() error {
	cfg := usage.DefaultConfig()
	cfg.Allowance = int64(n.s.AllowanceEvents)
	deps := usage.Deps{
		Log: n.log, Figures: n.reader, Now: n.now,
		Created: func(string) time.Time { return n.control.Account().CreatedAt }, // there is one account
	}
	if n.writer != nil {
		deps.Counter = n.writer
	}
	var err error
	if n.usage, err = usage.New(cfg, deps); err != nil {
		return err
	}
	n.st.Start("usage", n.usage.Run)
	return nil
}

// startLedger follows what this node dispatches.
func (n *Node) startLedger() error {
	if !n.s.has("dispatch") || n.s.LedgerSeconds == 0 {
		return nil
	}
	cfg := ledger.DefaultConfig()
	cfg.Every = time.Duration(n.s.LedgerSeconds) * time.Second
	cfg.Window = max(cfg.Window, cfg.Every)
	var err error
	if n.ledger, err = ledger.New(cfg, ledger.Deps{Log: n.log, Stream: n.stream, Metrics: n.registry, Now: n.now}); err != nil {
		return err
	}
	n.st.Start("ledger", n.ledger.Run)
	return nil
}

func (n *Node) startDispatcher() error {
	if !n.s.has("dispatch") {
		return nil
	}
	cfg := dispatcher.DefaultConfig()
	cfg.InstanceID, cfg.RetentionDays, cfg.Version, cfg.Drain = n.instanceID(), n.s.RetentionDays, n.s.Version, drain
	transport, err := n.deliveryTransport(&cfg)
	if err != nil {
		return err
	}
	if err := errors.Join(n.startRecovery(), n.startTrimmer(), n.startEraser()); err != nil {
		return err
	}
	d, err := dispatcher.New(cfg, dispatcher.Deps{
		Log: n.log, Stream: n.stream, Producer: n.producer, Config: n.control, Changes: n.control, Keyring: n.keyring,
		Transport: transport, IDs: n.ids, Now: n.control.Now, Metrics: n.registry, Owned: n.owned, Pacer: n.limiter, Held: n.limiter, Erased: n.control.Erased,
	})
	if err != nil {
		return err
	}
	if err := n.st.Ready(n.control.ClockKnown()); err != nil {
		return err
	}
	n.st.Start("dispatcher", d.Run)
	return nil
}

// startAlerts prepares the way to people, which the test of channels takes too, and judges what this node dispatches.
func (n *Node) startAlerts() error {
	transport, err := egress.NewTransport(egress.Config{Policy: n.policy, CAFile: n.s.EgressCAFile, DNSServer: n.s.DNSServer})
	if err != nil {
		return err
	}
	operator, err := egress.NewOperator(n.s.EgressCAFile, n.s.DNSServer)
	if err != nil {
		return err
	}
	domains, err := notify.ParseDomains(n.s.AlertDomains)
	if err != nil {
		return err
	}
	n.notifier, err = notify.New(notify.Config{SMTPURL: n.s.SMTPURL, Domains: domains, Version: n.s.Version},
		notify.Deps{Transport: transport, Dial: operator.Dial, TLS: operator.TLS(), Now: n.now})
	if err != nil || !n.s.has("dispatch") {
		return err
	}
	a, err := alert.New(alert.Config{Node: n.s.NodeName, InstanceID: n.instanceID(), BaseURL: n.url}, alert.Deps{
		Log: n.log, Stream: n.stream, Config: n.control, History: n.control, Keyring: n.keyring, Notifier: n.notifier, Now: n.control.Now, Metrics: n.registry,
		Usage: allowance{n.usage, n.control}, Events: n.reader,
	})
	if err != nil {
		return err
	}
	n.st.Start("alerts", a.Run)
	return nil
}

// allowance says how much of it the one account has used.
type allowance struct {
	usage  *usage.Usage
	config *control.Control
}

// Used returns the events of this month, and how many are agreed on.
func (a allowance) Used(ctx context.Context) (events, agreed int64, err error) {
	return a.usage.Current(ctx, a.config.Account().ID)
}

// owned hears which partitions of events this node dispatches; the owner of the first writes snapshots, trims
// the log and erases payloads. The ledger follows what is dispatched here.
func (n *Node) owned(partitions []int32) {
	n.first.Store(slices.Contains(partitions, 0))
	n.control.SetOwner(n.first.Load())
	n.trimmer.SetOwner(n.first.Load())
	if n.ledger != nil {
		n.ledger.SetPartitions(partitions)
	}
	if n.recovery != nil {
		n.recovery.Own(partitions)
	}
}

// instanceID makes group membership static, so that a restart within the session moves no partition. In
// dev there is nobody to move them to, and a static member would only be waited for.
func (n *Node) instanceID() string {
	if n.s.Embedded {
		return ""
	}
	return n.s.NodeName
}

func (n *Node) startHTTP(listener net.Listener) error {
	proxies, err := Prefixes(n.s.TrustedProxies)
	if err != nil {
		return err
	}
	front := &web.Front{Log: n.log, Proxies: proxies, BaseURL: n.url}
	guard, err := n.startGuard()
	if err != nil {
		return err
	}
	in := ingest.New(ingest.Config{BaseURL: n.url, MaxBody: int64(n.s.MaxBody)}, ingest.Deps{
		Metrics: n.registry, Endpoints: n.control, Keyring: n.keyring, Producer: n.producer, IDs: n.ids, Now: n.now,
		ClockSkew: n.control.ClockSkew, Claims: n.limiter, Limits: n.limiter, Logged: n.reader.Logged, Refuse: guard.Refuse, Front: front,
	})
	resolver, err := egress.NewResolver(n.s.DNSServer)
	if err != nil {
		return err
	}
	watched, err := n.startFeed()
	if err != nil {
		return err
	}
	ready, err := n.startReadiness()
	if err != nil {
		return err
	}
	cfg := api.Config{
		BaseURL: n.url, MaxBody: int64(n.s.MaxBody), RetentionDays: n.s.RetentionDays, Version: n.s.Version, TrustedProxies: proxies, AllowedHosts: n.s.AllowedHosts,
		AlertDomains: n.notifier.Domains(),
		RateRead:     n.s.rate(n.s.APIRateRead, 500), RateWrite: n.s.rate(n.s.APIRateWrite, 200),
		RateSend: n.s.rate(n.s.APIRateSend, 5000),
	}
	a, err := api.New(cfg,
		api.Deps{
			Log: n.log, Config: n.control, Keyring: n.keyring, Events: n.reader, Feed: watched, Accept: in.Acceptor(), Commands: commander{n.producer}, Receipts: receipts{n.reader, n.producer}, Erasures: n.control, Usage: n.usage, Limits: n.limiter, Memory: n.limiter, Notifier: n.notifier,
			Replays:  api.Replays{Selection: n.reader, Runs: n.control, Answers: n.control},
			Recovery: n.reader, Audit: auditLog{n.reader, n.control}, Uses: n.uses,
			Egress: n.policy, Resolver: resolver, IDs: n.ids, Now: n.now, Metrics: n.registry, Ready: ready,
			Verification: ingest.CheckVerification, Reverify: in.Reverify, Sample: in.Sample,
		})
	if err != nil {
		return err
	}
	if n.s.has("api") {
		n.st.Start("replay watch", a.Run)
	}
	ingestHandler := in.Handler()
	apiHandler := a.Handler()
	elsewhere := front.Wrap(func(http.ResponseWriter, *http.Request) error { return web.Missing("this node does not serve that") })
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Apart from the rest before any routing: this is the path that must be fast.
		in, v1 := strings.HasPrefix(r.URL.Path, ingest.PathPrefix), strings.HasPrefix(r.URL.Path, "/v1/")
		switch {
		case in && n.s.has("ingest"):
			ingestHandler.ServeHTTP(w, r)
		case in || v1 && !n.s.has("api"):
			elsewhere.ServeHTTP(w, r)
		default:
			apiHandler.ServeHTTP(w, r)
		}
	})
	return n.serve(&server{listener: listener, handler: handler, drain: a.Drain, log: n.log})
}

// serve starts the server, with TLS where the settings name a certificate.
func (n *Node) serve(srv *server) (err error) {
	if n.s.TLSCertFile != "" {
		if srv.certificate, err = newCertificate(n.s.TLSCertFile, n.s.TLSKeyFile, n.log); err != nil {
			return err
		}
	}
	n.st.Start("http server", srv.Run)
	return nil
}

// auditLog is what the store has of the audit log, and what it has not yet.
type auditLog struct {
	*store.Reader
	*control.Control
}

// commander puts work onto the topic commands.
type commander struct{ producer *stream.Producer }

// Commands appends the work items to the partitions of their events and waits until all of them are durable; see
// api.Commander. It waits for room in the producer's buffer: a page may be larger than what is free.
func (c commander) Commands(ctx context.Context, works []*event.Work) (acknowledged int, err error) {
	results := make(chan error, len(works))
	produced := 0
	for _, w := range works {
		r, recordErr := w.Record()
		if recordErr == nil && c.producer.Room(ctx, r) != nil {
			recordErr = fmt.Errorf("produce to %s: %w", stream.Commands, stream.ErrFull)
		}
		if err = recordErr; err != nil {
			break
		}
		c.producer.Produce(stream.Commands, w.Event.ID.Partition(), r, func(_ *stream.Record, err error) { results <- err })
		produced++
	}
	for range produced {
		select {
		case failed := <-results:
			if failed == nil {
				acknowledged++
			} else if err == nil || !errors.Is(failed, stream.ErrFull) { // what is not known for sure counts
				err = fmt.Errorf("produce to %s: %w", stream.Commands, failed)
			}
		case <-ctx.Done():
			return acknowledged, fmt.Errorf("produce to %s: %w", stream.Commands, ctx.Err())
		}
	}
	return acknowledged, err
}

// receipts puts what receivers say onto the topic receipts and reads what came of it.
type receipts struct {
	*store.Reader
	producer *stream.Producer
}

// Report appends the receipt to its event's partition, waits until it is durable, and asks the store.
func (r receipts) Report(ctx context.Context, x *event.Receipt) (event.Standing, error) {
	record := x.Record()
	if err := r.producer.ProduceSync(ctx, stream.Receipts, x.Event.Partition(), record); err != nil {
		return event.Standing{}, err
	}
	return r.Standing(ctx, x, record.Offset)
}
