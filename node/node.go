// Package node wires and starts one relay process. Begin with [Node] and starts: one list of all components in
// the order in which they start; they stop in reverse, which drains the process.
//
// NewStack and [Start] run a node. The rest serves the process itself: HTTP with TLS and a bound on connections, the
// reloading of certificate files, readiness, metrics and pprof, the command socket, and how often the garbage collector
// runs.
//
// Start returns when the node takes requests. A component that ends by itself ends the whole process, and no component
// stops before those that use it have ended.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/acme/autocert"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/dashboard"
	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/dispatcher/recovery"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/embedded/claims"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/pull"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/usage"
	"github.com/eventrelay/relay/usage/alert"
)

// The steps of a stop come one after the other, and each waits at most this long. With 3 s for alerts
// (alert.stopTimeout), 2 s for traces and 1 s for logs they add up to 30 s, the least that the chart gives a node after
// the delay (RELAY_SHUTDOWN_DELAY_SECONDS); docker-compose.yml gives 40 s with a delay of 5 s. A stop takes longer
// while Kafka or ClickHouse does not answer; a SIGKILL then repeats deliveries and loses no event.
const (
	// operatorDrain bounds the command socket and the server of metrics, each: their requests can be repeated.
	operatorDrain = 500 * time.Millisecond
	requestDrain  = 5 * time.Second  // requests of clients
	deliveryDrain = 16 * time.Second // deliveries; one that has the default timeout_seconds ends within 15 s
	flushTimeout  = 2 * time.Second  // last records to the log
)

// Node is one running process: what its components share, and the components, each of which a function in starts
// creates.
type Node struct {
	features.Host
	settings nodeconfig.Config
	stack    *Stack
	registry Metrics
	ids      *id.Generator

	listener     net.Listener
	spans        *spans.Recorder // nil without traces
	pulls        *pull.Router
	certificates certificates      // nil: plain HTTP
	acme         *autocert.Manager // nil: without ACME
	writer       *write.Writer
	usage        *usage.Usage
	recovery     *recovery.Runner        // nil without the role dispatch
	trimmer      *stream.Trimmer         // nil without the role dispatch
	owned        atomic.Pointer[[]int32] // partitions that this node dispatches
	notifier     *notify.Sender
	guard        *stream.RetentionGuard
	proxies      []netip.Prefix
	features     []features.Parts // of Features
	feed         *feed.Feed
	readiness    *api.Readiness
	damage       storeDamage
	api          *api.API
	dashboard    *dashboard.Dashboard // nil without the role api
}

// URL is the public address of the node.
func (n *Node) URL() string { return n.PublicURL }

// runFunc runs a component until its context ends.
type runFunc = func(context.Context) error

// start is one component of a node.
type start struct {
	name string
	role string // only nodes with this role start it; "" = every node
	// new creates it from those above it, stores it in the node and returns its Run; a nil run = it has no goroutine of
	// its own.
	new func(*Node) (run runFunc, err error)
	// ready returns a channel that is closed when those below may use it; nil = at once.
	ready func(*Node) <-chan struct{}
}

// starts are the components of a node, each on those above it. They stop in reverse.
var starts = []start{
	{name: "heap", new: newHeap},
	{name: "listener", new: newListener},
	{
		name: "configuration", new: newControl,
		ready: func(n *Node) <-chan struct{} { return n.Control.Ready() },
	},
	{name: "check of the configuration", role: nodeconfig.RoleDispatch, new: checkConfiguration},
	{name: "traces", new: newTraces},
	{name: "limiter", new: newLimiter},
	{name: "producer", new: newProducer},
	{name: "own addresses", new: newOwn},
	{name: "uses of keys", new: newUses},
	{name: "store writer", role: nodeconfig.RoleWrite, new: newWriter},
	{name: "store reader", new: newReader},
	{name: "claims", new: newClaims},
	{name: "usage", new: newUsage},
	{name: "recovery", role: nodeconfig.RoleDispatch, new: newRecovery},
	{name: "trimming of the log", role: nodeconfig.RoleDispatch, new: newTrimmer},
	{name: "eraser of payloads", role: nodeconfig.RoleDispatch, new: newEraser},
	{name: "retention of the store", role: nodeconfig.RoleDispatch, new: newExpirer},
	{
		name: "clock", role: nodeconfig.RoleDispatch, new: func(*Node) (runFunc, error) { return nil, nil },
		ready: func(n *Node) <-chan struct{} { return n.Control.ClockKnown() },
	},
	{name: "hooks of features", new: startFeatures(func(p *features.Parts) []features.Start { return p.Hooks })},

	{name: "dispatcher", role: nodeconfig.RoleDispatch, new: newDispatcher},
	{name: "router of pulls", new: newPulls},
	{name: "notifier", new: newNotifier},
	{name: "alerts", role: nodeconfig.RoleDispatch, new: newAlerts},
	{name: "guard of the log", new: newGuard},
	{name: "ingest", new: newIngest},
	{name: "sources", role: nodeconfig.RoleDispatch, new: newSources},
	{name: "stages of features", new: startFeatures(func(p *features.Parts) []features.Start { return p.Stages })},
	{name: "event feed", new: newFeed},
	{name: "search for damage of the store", role: nodeconfig.RoleAPI, new: newDamage},
	{
		name: "readiness", new: newReadiness,
		ready: func(n *Node) <-chan struct{} { return n.readiness.Checked() },
	},
	{name: "api", new: newAPI},
	{name: "callers of features", new: startFeatures(func(p *features.Parts) []features.Start { return p.Callers })},
	{name: "dashboard", role: nodeconfig.RoleAPI, new: newDashboard},
	{name: "certificates", new: newCertificates},
	{name: "admin server", new: newAdminServer}, // if its address is in use, no request is answered
	{name: "http server", new: newServer},
	{name: "redirects to https", new: newRedirects},
	{name: "command socket", new: newSocket},
	{name: "export of metrics", new: newMetricsExport},
}

// Start starts the components that the roles ask for, in their order, and returns when the node takes requests. After
// an error the caller stops the stack.
func Start(stack *Stack, settings nodeconfig.Config, log *slog.Logger, registry Metrics) (*Node, error) {
	keyring, err := seal.NewKeyring(settings.MasterKeys)
	if err != nil {
		return nil, fmt.Errorf("RELAY_MASTER_KEYS: %w", err)
	}
	n := &Node{settings: settings, stack: stack, registry: registry, Host: features.Host{
		NodeName: settings.NodeName, InstanceID: settings.InstanceID(), Version: settings.Version, Keyring: keyring,
		DNSServer: settings.DNSServer, ScanInterval: settings.Waits.ScanInterval,
		Log: log, Metrics: registry, Stream: settings.Stream(), Now: crash.Clock(), Policy: settings.EgressPolicy(),
	}}
	n.Outbound, n.Settings = n.outbound, &n.settings
	n.Owned = n.ownedPartitions
	n.OpenFiles = func() (most, want int) { return openFiles(), fewFiles }
	for _, f := range Features {
		if f.New != nil {
			n.features = append(n.features, f.New(&n.Host))
		}
	}
	n.ids = newIDs(n.Now, n.Log, n.registry)
	n.registry.MustRegister(processMetrics(settings.DataDir)...)
	n.registry.MustRegister(nodeMetrics(settings)...)
	n.Stream.Log = log
	for _, c := range starts {
		if c.role != "" && !settings.HasRole(c.role) {
			continue
		}
		run, err := c.new(n)
		if err != nil {
			return nil, err
		}
		if run != nil {
			stack.Start(c.name, run)
		}
		if c.ready == nil {
			continue
		}
		if err := stack.Ready(c.ready(n)); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// startFeatures starts components of all features.
func startFeatures(of func(*features.Parts) []features.Start) func(*Node) (runFunc, error) {
	return func(n *Node) (runFunc, error) {
		for i := range n.features {
			for _, c := range of(&n.features[i]) {
				if c.Role != "" && !n.settings.HasRole(c.Role) {
					continue
				}
				run, err := c.New()
				if err != nil {
					return nil, err
				}
				if run != nil {
					n.stack.Start(c.Name, run)
				}
			}
		}
		return nil, nil
	}
}

// newListener listens before anything else starts: a wrong address is an error at once, and other components need the
// node's URL.
func newListener(n *Node) (runFunc, error) {
	var err error
	if n.listener, err = net.Listen("tcp", n.settings.Listen); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; stop what uses the port, or choose another with --listen", err)
		}
		return nil, fmt.Errorf("listen on RELAY_LISTEN: %w", err)
	}
	n.PublicURL = n.settings.URL(n.listener.Addr().String())
	n.DashboardURL = dashboard.URL(n.PublicURL, n.settings.DashboardHost)
	n.PortalURL = dashboard.URL(n.PublicURL, cmp.Or(n.settings.PortalHost, n.settings.DashboardHost)) +
		dashboard.PortalPath
	own := slices.Clone(n.settings.AllowedHosts)
	if n.settings.DashboardHost != "" {
		own = append(own, n.settings.DashboardHost)
	}
	if n.settings.PortalHost != "" {
		own = append(own, n.settings.PortalHost)
	}
	n.Policy.OwnURLs = egress.NewOwnURLs(n.PublicURL, own)
	return func(ctx context.Context) error {
		<-ctx.Done()
		_ = n.listener.Close() // the server above has closed it, unless it was never started
		return nil
	}, nil
}

func newControl(n *Node) (runFunc, error) {
	ctx, cancel := context.WithTimeout(n.stack.Context(), time.Minute)
	defer cancel()
	partitions, err := n.awaitLog(ctx)
	if err != nil {
		return nil, err
	}
	n.Partitions = partitions
	n.Control, err = config.New(config.Config{
		Node: n.settings.NodeName, Version: n.settings.Version, Partitions: partitions, BootstrapKey: n.settings.BootstrapKey,
		BootstrapReadKey: n.settings.BootstrapReadKey,
		SingleNode:       n.settings.Embedded, RetentionDays: n.settings.RetentionDays,
		AdminEmail: n.settings.AdminEmail, AdminPassword: n.settings.AdminPassword,
		RunProgressTimeout: n.settings.Waits.RunProgress,
	}, config.Deps{Log: n.Log, Stream: n.Stream, Keyring: n.Keyring, Now: n.Now, Metrics: n.registry})
	if err != nil {
		return nil, err
	}
	n.Assigned = ownEndpoints{n.Control, n.Owned}
	return n.Control.Run, nil
}

// newLimiter succeeds without Redis; the limiter then works per node.
func newLimiter(n *Node) (runFunc, error) {
	var err error
	if n.Limiter, err = limit.New(
		n.settings.Limit(), limit.Deps{Log: n.Log, Metrics: n.registry, Now: n.Now}); err != nil {
		return nil, err
	}
	return n.Limiter.Run, nil
}

func newProducer(n *Node) (runFunc, error) {
	var err error
	if n.Producer, err = stream.NewProducer(n.Stream, "producer"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		defer n.Producer.Close()
		return n.Producer.Flush(flush)
	}, nil
}

// newUses creates the recorder of which API keys are used on this node.
func newUses(n *Node) (runFunc, error) {
	uses, err := audit.NewUses(n.settings.NodeName, audit.UsesDeps{Log: n.Log, Producer: n.Producer, Now: n.Now})
	if err != nil {
		return nil, err
	}
	n.KeyUses = uses
	return uses.Run, nil
}

func newWriter(n *Node) (runFunc, error) {
	cfg := write.WriterConfig{URL: n.settings.ClickHouseURL}
	var scan func(context.Context, []*event.Event) error
	if n.Scan != nil {
		var err error
		if scan, err = n.Scan(); err != nil {
			return nil, err
		}
	}
	var err error
	n.writer, err = write.NewWriter(cfg, write.WriterDeps{
		Log: n.Log, Stream: n.Stream, Producer: n.Producer, Metrics: n.registry, InstanceID: n.InstanceID,
		Erased: n.Control.Erased, Sync: n.settings.SyncTables, Scan: scan,
	})
	if err != nil {
		return nil, err
	}
	n.Control.Messages.Handle(func(message []byte) { // of readers on other nodes
		if targets, err := store.DecodeTargets(message); err == nil {
			n.writer.RequestFlush(targets)
		}
	})
	return n.writer.Run, nil
}

func newReader(n *Node) (runFunc, error) {
	deps := cluster.Deps{Stream: n.Stream, Erased: n.Control.Erased}
	if !n.settings.Embedded {
		deps.AskOthers = func(ctx context.Context, targets map[stream.Partition]int64) error {
			return n.Control.Messages.Send(ctx, store.EncodeTargets(targets))
		}
	}
	if n.writer != nil {
		deps.Writer = n.writer
	}
	var err error
	n.Reader, err = read.NewReader(cluster.Config{
		URL: n.settings.ClickHouseURL, ReadURL: n.settings.ReadURL, RetentionDays: n.settings.RetentionDays,
		SearchURL: n.settings.SearchURL, SearchThreads: n.settings.SearchThreads, SearchIndex: n.settings.SearchIndex,
	}, deps)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		return n.Reader.Close()
	}, nil
}

// newUsage creates the figures of usage on every node. A node with the role write also counts the rows that it writes.
func newUsage(n *Node) (runFunc, error) {
	cfg := usage.DefaultConfig()
	cfg.Allowance = int64(n.settings.AllowanceEvents)
	deps := usage.Deps{
		Log: n.Log, Store: n.Reader, Now: n.Now,
		Created: func(string) time.Time { return n.Control.Account().CreatedAt }, // there is one account
	}
	if n.writer != nil {
		deps.Counter = n.writer
	}
	var err error
	if n.usage, err = usage.New(cfg, deps); err != nil {
		return nil, err
	}
	return n.usage.Run, nil
}

func newDispatcher(n *Node) (runFunc, error) {
	cfg := dispatcher.DefaultConfig()
	cfg.MaxTransformedBody = 2 * n.settings.MaxBody
	cfg.InstanceID, cfg.RetentionDays, cfg.Version, cfg.Drain = n.InstanceID, n.settings.RetentionDays,
		n.settings.Version, deliveryDrain
	transport, err := n.deliveryTransport(&cfg)
	if err != nil {
		return nil, err
	}
	d, err := dispatcher.New(cfg, dispatcher.Deps{
		Log: n.Log, Stream: n.Stream, Producer: n.Producer, Config: n.Control, Updater: n.Control, Keyring: n.Keyring,
		Transport: transport, IDs: n.ids, Now: n.Control.Now, Metrics: n.registry, OnOwned: n.setOwnedPartitions,
		Limiter: n.Limiter,
		Held:    n.Limiter, Erased: n.Control.Erased, UseHit: n.UseHit, Spans: n.spans,
		Delivered: n.deliveredByRuns,
	})
	if err != nil {
		return nil, err
	}
	n.pulls = n.newRouter(d.Pulls())
	return d.Run, nil
}

// deliveredByRuns is dispatcher.Deps.Delivered. Without a run in the configuration, which keeps runs for 30 days, a
// start does not wait for the store.
func (n *Node) deliveredByRuns(
	ctx context.Context, limit int, each func(run string, event id.ID, dest string, ended time.Time)) error {
	if v := n.Control.View(); v.Len(entity.KindRun)+v.Len(entity.KindRecovery) == 0 {
		return nil
	}
	return n.Reader.DeliveredByRuns(ctx, limit, each)
}

// newNotifier creates the sender of mail, Slack messages and webhooks to people. Alerts and POST /v1/alerts/test use
// it.
func newNotifier(n *Node) (runFunc, error) {
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	operator, err := egress.NewOperatorDialer(n.settings.EgressCAFile, n.settings.DNSServer)
	if err != nil {
		return nil, err
	}
	domains, err := notify.ParseDomains(n.settings.AlertDomains)
	if err != nil {
		return nil, err
	}
	n.notifier, err = notify.New(notify.Config{SMTPURL: n.settings.SMTPURL, Domains: domains, Version: n.settings.Version},
		notify.Deps{Transport: transport, Dial: operator.Dial, TLS: operator.TLS(), Now: n.Now})
	return nil, err
}

// newAlerts creates the evaluation of alert rules for the partitions that this node dispatches.
func newAlerts(n *Node) (runFunc, error) {
	var err error
	n.Alerts, err = alert.New(
		alert.Config{Node: n.settings.NodeName, InstanceID: n.InstanceID, BaseURL: n.DashboardURL},
		alert.Deps{
			Log: n.Log, Stream: n.Stream, Config: n.Control,
			Failures: n.CountFailures, Keyring: n.Keyring, Sender: n.notifier, Now: n.Control.Now, Metrics: n.registry,
			Usage: allowance{n.usage, n.Control}, Events: n.Reader, Sources: n.sources,
		})
	if err != nil {
		return nil, err
	}
	return n.Alerts.Run, nil
}

// allowance compares the events of the one account with its allowance.
type allowance struct {
	usage  *usage.Usage
	config *config.Control
}

// Used returns the events of this month, and the monthly allowance; 0 = none.
func (a allowance) Used(ctx context.Context) (events, agreed int64, err error) {
	return a.usage.Current(ctx, a.config.Account().ID)
}

// setOwnedPartitions passes to the components which partitions of events this node dispatches. The owner of the first
// one writes snapshots, trims the log, erases payloads and drops expired days for all nodes.
func (n *Node) setOwnedPartitions(partitions []int32) {
	n.owned.Store(&partitions)
	n.pulls.Changed()
	n.OwnsFirstPartition.Store(slices.Contains(partitions, 0))
	n.Control.SetOwner(n.OwnsFirstPartition.Load())
	n.trimmer.SetOwner(n.OwnsFirstPartition.Load())
	if n.recovery != nil {
		n.recovery.SetOwned(partitions)
	}
}

// ownedPartitions is features.Host.Owned.
func (n *Node) ownedPartitions() []int32 {
	if owned := n.owned.Load(); owned != nil {
		return *owned
	}
	return nil
}

// recoverClaims bounds the search for the events of the claims that a crash left pending. There are as many as requests
// were in flight.
const recoverClaims = time.Minute

// newClaims keeps the claims of events in a file if the settings name one, otherwise in Redis.
func newClaims(n *Node) (runFunc, error) {
	if n.Claims = n.Limiter; n.settings.ClaimsFile == "" {
		return nil, nil
	}
	store, err := claims.Open(claims.Config{Path: n.settings.ClaimsFile, Sync: n.settings.Fsync},
		claims.Deps{Log: n.Log, Now: n.Now, SyncDir: private.SyncDir})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(n.stack.Context(), recoverClaims)
	defer cancel()
	err = store.Recover(ctx, func(ctx context.Context, event id.ID) (bool, error) {
		return n.Reader.HasEvent(ctx, n.Control.Account().ID, event)
	})
	if err != nil {
		n.Log.LogAttrs(ctx, slog.LevelWarn, "cannot decide which events an interrupted node has stored: if they are sent "+
			"again, they may be delivered twice", slog.Any("error", err))
	}
	n.Claims = store
	return func(ctx context.Context) error {
		defer store.Close()
		return store.Run(ctx)
	}, nil
}

// limiterStore is what the API reads and writes in Redis, with the claims where they are.
type limiterStore struct {
	claim.Store
	held interface {
		HeldUntil(ctx context.Context, dests []string) map[string]time.Time
		SourceStatus(ctx context.Context, endpoint string) string
	}
}

// HeldUntil implements frame.LimiterStore.
func (s limiterStore) HeldUntil(ctx context.Context, dests []string) map[string]time.Time {
	return s.held.HeldUntil(ctx, dests)
}

// newRecovery creates the runner of recovery jobs for the partitions that this node dispatches.
func newRecovery(n *Node) (runFunc, error) {
	r, err := recovery.New(recovery.Deps{
		Log: n.Log, Jobs: n.Control, Endpoints: n.Control, Store: n.Reader, Submitter: submitter{n.Producer},
		Now:     n.Control.Now,
		NewName: func() string { return id.Random("") },
	})
	if err != nil {
		return nil, err
	}
	n.recovery = r
	return r.Run, nil
}

// newIDs creates the node's id generator. After the clock is set back, ids wait until it has caught up. From 30 s on
// no event is accepted meanwhile: this is logged when it begins and ends, and the metric and /readyz show it.
func newIDs(now func() time.Time, log *slog.Logger, reg prometheus.Registerer) *id.Generator {
	ids := id.NewGenerator(now)
	ids.OnStall(func(wait time.Duration) {
		if wait == 0 {
			log.Info("the clock has caught up: events are accepted again")
			return
		}
		log.Error("the clock was set back by more than 30 s: no event is accepted until it has caught up with the ids that "+
			"were issued",
			"ahead", wait+id.MaxAhead, "until", now().Add(wait))
	})
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "relay_id_ahead_seconds", Help: "Seconds that issued ids are ahead of the clock. Above 30 no event is " +
			"accepted.",
	}, func() float64 { return ids.Ahead().Seconds() }))
	return ids
}

func idCheck(ids *id.Generator) api.Check {
	return api.Check{Name: "ids", Func: func(context.Context) error {
		if ahead := ids.Ahead(); ahead > id.MaxAhead {
			return fmt.Errorf("issued ids are ahead of the clock by %v: no event is accepted for another %v", ahead,
				ahead-id.MaxAhead)
		}
		return nil
	}}
}
