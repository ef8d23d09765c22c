package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/dashboard"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/store/read"
)

// newIngest creates ingest, whose handler newServer serves.
func newIngest(n *Node) (runFunc, error) {
	var err error
	if n.proxies, err = nodeconfig.Prefixes(n.settings.TrustedProxies); err != nil {
		return nil, err
	}
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	n.Front = &web.Front{Log: n.Log, Proxies: n.proxies, BaseURL: n.PublicURL}
	n.Ingest = ingest.New(ingest.Config{
		BaseURL: n.PublicURL, MaxBody: int64(n.settings.MaxBody), ClaimTakeOver: n.settings.Waits.PendingClaim,
	}, ingest.Deps{
		Metrics: n.registry, Endpoints: n.Control, Keyring: n.Keyring, Producer: n.Producer, IDs: n.ids, Now: n.Now,
		ClockSkew: n.Control.ClockSkew, Claims: n.Claims, Limits: n.Limiter, HasEvent: n.Reader.HasEvent,
		Rejected:      n.Limiter.NewWindow("rejected-bytes", time.Minute),
		CheckCapacity: n.guard.Refusal, Tripwires: n.Tripwires, Front: n.Front, Spans: n.spans,
		Transport: transport,
	})
	return nil, nil
}

// newAPI creates the API. On nodes with the role api it also follows replay runs.
func newAPI(n *Node) (runFunc, error) {
	resolver, err := egress.NewResolver(n.settings.DNSServer)
	if err != nil {
		return nil, err
	}
	cfg := api.Config{
		BaseURL: n.PublicURL, DashboardURL: n.DashboardURL, MaxBody: int64(n.settings.MaxBody),
		RetentionDays: n.settings.RetentionDays, Version: n.settings.Version,
		TrustedProxies: n.proxies, AllowedHosts: n.settings.AllowedHosts,
		AlertDomains: n.notifier.Domains(),
		Portal:       api.Portal{URL: n.PortalURL, Origins: n.settings.PortalOrigins},
		RateRead:     n.settings.Rate(n.settings.APIRateRead, 500),
		RateWrite:    n.settings.Rate(n.settings.APIRateWrite, 200),
		RateSend:     n.settings.Rate(n.settings.APIRateSend, 5000),
		ClaimLife:    n.settings.Waits.ClaimLife, RunProgressTimeout: n.settings.Waits.RunProgress,
		SendTakeOver: n.settings.Waits.PendingClaim,
	}
	n.api, err = api.New(cfg, api.Deps{
		Services: frame.Services{Log: n.Log, Config: n.Control, Keyring: n.Keyring, Events: n.Reader, Erasures: n.Control,
			Limits: n.Limiter, LimiterStore: limiterStore{n.Claims, n.Limiter}, Answers: n.Control, Egress: n.Policy,
			IDs: n.ids},
		EventsDeps: api.EventsDeps{Accept: n.Ingest.Acceptor(), Receipts: receipts{n.Reader, n.Producer}, Feed: n.feed,
			Explain: n.Ingest.Explain, Sample: n.Ingest.Sample},
		JobsDeps: api.JobsDeps{Runs: n.Control, Selection: n.Reader, Commands: commander{n.Producer},
			Reverify: n.Ingest.Reverify, Recovery: n.Reader},
		AccountDeps: api.AccountDeps{Notifier: n.notifier, Usage: n.usage, Audit: auditLog{n.Reader, n.Control}},
		EndpointsDeps: api.EndpointsDeps{Traffic: n.Reader, Pulls: n.pulls, Resolver: resolver,
			ValidateVerification: ingest.CheckVerification},
		Areas: n.areas(), KeyUses: n.KeyUses, Refusals: n.Tripwires, Now: n.Now, Metrics: n.registry, Ready: n.readiness,
	})
	if err != nil || !n.settings.HasRole(nodeconfig.RoleAPI) {
		return nil, err
	}
	n.API = n.api
	return n.api.Run, nil
}

// areas returns what features add to the API.
func (n *Node) areas() (all []func(*frame.Core) frame.Area) {
	for i := range n.features {
		if area := n.features[i].API; area != nil {
			all = append(all, area)
		}
	}
	return all
}

// newDashboard creates the pages under /app.
func newDashboard(n *Node) (runFunc, error) {
	cfg := dashboard.Config{
		BaseURL: n.PublicURL, BaseURLIsDefault: n.settings.BaseURL == "", Host: n.settings.DashboardHost,
		PortalHost: n.settings.PortalHost, PortalOrigins: n.settings.PortalOrigins,
		AllowedHosts: n.settings.AllowedHosts, Dev: n.settings.Dev, TrustedProxies: n.proxies,
		Version: n.settings.Version, Reference: n.ReferencePath,
	}
	if a, err := netip.ParseAddrPort(n.listener.Addr().String()); err == nil {
		cfg.Listen = a.Addr()
	}
	issuer, err := oidc.New(n.settings.OIDC(n.DashboardURL+dashboard.IssuerCallback), n.Control.Now)
	if err != nil {
		return nil, err
	}
	site, err := site()
	if err != nil {
		return nil, err
	}
	n.dashboard, err = dashboard.New(cfg, dashboard.Deps{
		Log: n.Log, Now: n.Control.Now, Account: func() string { return n.Control.Account().ID }, API: n.api,
		Control: n.Control, SignInLimit: n.Limiter.NewSignIns(), KeyUses: n.Reader, AgentActions: n.AgentActions,
		OIDC: issuer, Doctor: n.Examine,
	}, site)
	return nil, err
}

// site has the pages of the core and of all features. Nodes of one process share it.
var site = sync.OnceValues(func() (*dashboard.Site, error) {
	var pages []ui.Area
	for _, f := range Features {
		if f.Pages != nil {
			pages = append(pages, f.Pages())
		}
	}
	return dashboard.NewSite(pages...)
})

// AcceptsBootstrapKey reports whether requests with RELAY_BOOTSTRAP_KEY are answered. Once revoked, it stays revoked.
func (n *Node) AcceptsBootstrapKey() bool {
	_, err := n.Control.Authenticate(n.settings.BootstrapKey)
	return !errors.Is(err, config.ErrInvalidKey)
}

// HasKeys reports whether there is an API key, valid or not.
func (n *Node) HasKeys() bool { return len(n.Control.Keys(n.Control.Account().ID)) > 0 }

// FirstUser is the email address of the user whom relay dev creates.
const FirstUser = "dev@localhost"

// DashboardLink returns the address at which a person opens the dashboard. While nobody has a password it is a one-time
// link that signs FirstUser in; see config.FirstLink. It is empty on a node without the role api.
func (n *Node) DashboardLink(ctx context.Context) (link string, isSignIn bool, err error) {
	if !n.settings.HasRole(nodeconfig.RoleAPI) {
		return "", false, nil
	}
	token, err := n.Control.FirstLink(ctx, FirstUser)
	if err != nil {
		return "", false, fmt.Errorf("create the sign-in link of %s: %w", FirstUser, err)
	}
	if token == "" {
		return n.DashboardURL + "/app", false, nil
	}
	return n.DashboardURL + admin.LinkPath + token, true, nil
}

// newServer creates the HTTP server for ingest, log drains, reports and the API, with TLS if the settings name a
// certificate.
func newServer(n *Node) (runFunc, error) {
	ingestHandler, apiHandler := n.Ingest.Handler(), n.api.Handler()
	notServed := n.Front.Wrap(func(http.ResponseWriter, *http.Request) error {
		return web.Missing("this node does not serve this path: RELAY_ROLES leaves it out")
	})
	pages := notServed
	if n.dashboard != nil {
		pages = n.dashboard.Handler()
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Requests for ingest skip the router of the API: they have to be fast.
		isIngest, v1 := strings.HasPrefix(r.URL.Path, ingest.PathPrefix), strings.HasPrefix(r.URL.Path, "/v1/")
		switch {
		case isIngest && n.settings.HasRole(nodeconfig.RoleIngest):
			ingestHandler.ServeHTTP(w, r)
		case isIngest || v1 && !n.settings.HasRole(nodeconfig.RoleAPI):
			notServed.ServeHTTP(w, r)
		case dashboard.Serves(r.URL.Path):
			pages.ServeHTTP(w, r)
		default:
			for i := range n.features {
				if serve := n.features[i].Serve; serve != nil {
					if h := serve(r.URL.Path, notServed); h != nil {
						h.ServeHTTP(w, r)
						return
					}
				}
			}
			apiHandler.ServeHTTP(w, r)
		}
	})
	srv := &server{
		listener: n.listener, handler: handler, log: n.Log, proxies: n.proxies, certificates: n.certificates,
		beforeShutdown: n.awaitLeaving, onShutdown: n.api.Drain, drain: requestDrain,
	}
	if srv.certificates != nil {
		srv.handler = withStrictTransport(handler)
	}
	return srv.Run, nil
}

// auditLog joins the audit log in the store with the outbox, whose entries are not stored yet.
type auditLog struct {
	*read.Reader
	*config.Control
}

// receipts appends processing receipts to their topic and reads the result from the store.
type receipts struct {
	*read.Reader
	producer *stream.Producer
}

// Report appends the receipt to its event's partition, waits until it is durable, and asks the store.
func (r receipts) Report(ctx context.Context, x *event.Receipt) (event.ReceiptResult, error) {
	record := x.Record()
	if err := r.producer.ProduceSync(ctx, stream.Receipts, x.Event.Partition(), record); err != nil {
		return event.ReceiptResult{}, err
	}
	return r.ReceiptResult(ctx, x, record.Offset)
}

// newFeed creates the source of event streams. It reads the log by itself, so that nodes without the role dispatch
// serve streams too.
func newFeed(n *Node) (runFunc, error) {
	topic, err := stream.NewReader(n.Stream, "feed")
	if err != nil {
		return nil, err
	}
	n.feed, err = feed.New(feed.Deps{
		Log: n.Log, Topic: topic, Store: n.Reader, Now: n.Now, Retention: n.settings.Retention(),
		Erased: n.Control.Erased,
	})
	if err != nil {
		topic.Close()
		return nil, err
	}
	return func(ctx context.Context) error {
		defer topic.Close()
		return n.feed.Run(ctx)
	}, nil
}

// newReadiness creates the checks of what this node needs to serve, which run once a second. Start waits for the first.
func newReadiness(n *Node) (runFunc, error) {
	n.readiness = api.NewReadiness(n.Log, n.checks())
	n.registry.MustRegister(n.readiness)
	return n.readiness.Run, nil
}

// Rounds returns how many rounds of the checks have ended: one a second in a node that is alive.
func (n *Node) Rounds() uint64 { return n.readiness.Rounds() }

// awaitLeaving makes the node not ready and returns when load balancers have had the time to notice. After the failure
// of a component it returns at once: others serve better. No context ends the wait: it begins when the context
// of the server has ended.
func (n *Node) awaitLeaving() {
	delay := n.settings.StopDelay()
	if delay == 0 || n.stack.Failed() {
		return
	}
	n.readiness.Stop()
	n.Log.Info("stopping: /readyz answers 503, requests are taken for a while", "delay", delay)
	<-time.After(delay)
}

// storeCheckEvery is how often ClickHouse is asked while it answers: two statements each time, most of what the store
// of an idle node does. Reads report at once that it does not answer.
const storeCheckEvery = 5 * time.Second

const (
	// firstDamageSearch is when the store is first searched for damage, damageSearchEvery how often from then on.
	firstDamageSearch, damageSearchEvery = 30 * time.Second, 10 * time.Minute
)

// storeDamage is what the last search for damage of the store has found.
type storeDamage struct{ found atomic.Pointer[[]string] }

// err returns an error if the store is damaged.
func (d *storeDamage) err(context.Context) error {
	if found := d.found.Load(); found != nil && len(*found) > 0 {
		return errors.New(strings.Join(*found, "; "))
	}
	return nil
}

// newDamage searches the store for damage from time to time.
func newDamage(n *Node) (runFunc, error) {
	return func(ctx context.Context) error {
		for pause := firstDamageSearch; wait.For(ctx, pause) == nil; pause = damageSearchEvery {
			if found, err := n.Reader.Damage(ctx); err == nil { // else the check of the store fails
				n.damage.found.Store(&found)
			}
		}
		return nil
	}, nil
}

// checks returns one check for each thing that a node with these roles uses. The store is optional: without it a node
// still takes events and changes of the configuration, and no other node could do more. If it were required, a pause of
// ClickHouse would take all nodes with the role api out of the load balancer at once.
func (n *Node) checks() []api.Check {
	checks := []api.Check{{Name: "configuration", Func: func(context.Context) error {
		if age, ok := n.Control.Lease(); !ok {
			return fmt.Errorf("%w: last confirmed %v ago", config.ErrLease, age.Round(time.Millisecond))
		}
		return nil
	}}}
	checks = append(checks, api.Check{Name: "clock", Func: func(context.Context) error {
		if skew := n.Control.ClockSkew(); skew.Abs() > id.MaxAhead {
			return fmt.Errorf("the broker's clock is %v ahead of this node's", skew.Round(time.Millisecond))
		}
		return nil
	}}, idCheck(n.ids))
	if n.settings.HasRole(nodeconfig.RoleAPI) {
		checks = append(checks, api.Check{Name: "store", Func: n.Reader.Ping, Optional: true, Every: storeCheckEvery},
			api.Check{Name: "stored data", Func: n.damage.err, Optional: true})
	}
	return checks
}
