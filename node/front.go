package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/store/read"
)

// newListener listens before anything else starts: a wrong address is an error at once, and other components need the
// node's URL.
func newListener(n *Node) (runFunc, error) {
	var err error
	if n.listener, err = net.Listen("tcp", n.Settings.Listen); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; stop what uses the port, or choose another with --listen", err)
		}
		return nil, fmt.Errorf("listen on RELAY_LISTEN: %w", err)
	}
	n.PublicURL = n.Settings.URL(n.listener.Addr().String())
	n.DashboardURL = dashboard.URL(n.PublicURL, n.Settings.DashboardHost)
	n.PortalURL = dashboard.URL(n.PublicURL, cmp.Or(n.Settings.PortalHost, n.Settings.DashboardHost)) +
		dashboard.PortalPath
	own := append(slices.Clone(n.Settings.AllowedHosts), n.Settings.DashboardHost, n.Settings.PortalHost)
	n.Policy.OwnURLs = egress.NewOwnURLs(n.PublicURL, slices.DeleteFunc(own, func(host string) bool { return host == "" }))
	return func(ctx context.Context) error {
		<-ctx.Done()
		_ = n.listener.Close() // the server above has closed it, unless it was never started
		return nil
	}, nil
}

// newIngest creates ingest, whose handler newServer serves.
func newIngest(n *Node) (runFunc, error) {
	proxies, err := nodeconfig.Prefixes(n.Settings.TrustedProxies)
	if err != nil {
		return nil, err
	}
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	n.Front = &web.Front{Log: n.Log, Proxies: proxies, BaseURL: n.PublicURL}
	n.Ingest = ingest.New(ingest.Config{
		BaseURL: n.PublicURL, MaxBody: int64(n.Settings.MaxBody), ClaimTakeOver: n.Settings.Waits.PendingClaim,
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
	resolver, err := egress.NewResolver(n.Settings.DNSServer)
	if err != nil {
		return nil, err
	}
	cfg := api.Config{
		BaseURL: n.PublicURL, DashboardURL: n.DashboardURL, MaxBody: int64(n.Settings.MaxBody),
		RetentionDays: n.Settings.RetentionDays, Version: n.Settings.Version,
		TrustedProxies: n.Front.Proxies, AllowedHosts: n.Settings.AllowedHosts,
		AlertDomains: n.notifier.Domains(),
		Portal:       api.Portal{URL: n.PortalURL, Origins: n.Settings.PortalOrigins},
		RateRead:     n.Settings.Rate(n.Settings.APIRateRead, 500),
		RateWrite:    n.Settings.Rate(n.Settings.APIRateWrite, 200),
		RateSend:     n.Settings.Rate(n.Settings.APIRateSend, 5000),
		ClaimLife:    n.Settings.Waits.ClaimLife, RunProgressTimeout: n.Settings.Waits.RunProgress,
		SendTakeOver: n.Settings.Waits.PendingClaim,
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
	if err != nil || !n.Settings.HasRole(nodeconfig.RoleAPI) {
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
		BaseURL: n.PublicURL, BaseURLIsDefault: n.Settings.BaseURL == "", Host: n.Settings.DashboardHost,
		PortalHost: n.Settings.PortalHost, PortalOrigins: n.Settings.PortalOrigins,
		AllowedHosts: n.Settings.AllowedHosts, Dev: n.Settings.Dev, TrustedProxies: n.Front.Proxies,
		Version: n.Settings.Version, Reference: n.ReferencePath,
	}
	if a, err := netip.ParseAddrPort(n.listener.Addr().String()); err == nil {
		cfg.Listen = a.Addr()
	}
	issuer, err := oidc.New(n.Settings.OIDC(n.DashboardURL+dashboard.IssuerCallback), n.Control.Now)
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

// URL is the public address of the node.
func (n *Node) URL() string { return n.PublicURL }

// TryDestination is a destination for a first event: one in this process that accepts it, or else one that is disabled.
func (n *Node) TryDestination() string {
	if n.TryURL == "" {
		return `{"url":"https://example.com/hook","enabled":false}`
	}
	return fmt.Sprintf(`{"url":%q}`, n.TryURL)
}

// AcceptsBootstrapKey reports whether requests with RELAY_BOOTSTRAP_KEY are answered. Once revoked, it stays revoked.
func (n *Node) AcceptsBootstrapKey() bool {
	_, err := n.Control.Authenticate(n.Settings.BootstrapKey)
	return !errors.Is(err, config.ErrInvalidKey)
}

// HasKeys reports whether there is an API key, valid or not.
func (n *Node) HasKeys() bool { return len(n.Control.Keys(n.Control.Account().ID)) > 0 }

// FirstUser is the email address of the user whom relay dev creates.
const FirstUser = "dev@localhost"

// DashboardLink returns the address at which a person opens the dashboard. While nobody has a password it is a one-time
// link that signs FirstUser in; see config.FirstLink. It is empty on a node without the role api.
func (n *Node) DashboardLink(ctx context.Context) (link string, isSignIn bool, err error) {
	if !n.Settings.HasRole(nodeconfig.RoleAPI) {
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
		case isIngest && n.Settings.HasRole(nodeconfig.RoleIngest):
			ingestHandler.ServeHTTP(w, r)
		case isIngest || v1 && !n.Settings.HasRole(nodeconfig.RoleAPI):
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
		listener: n.listener, handler: handler, log: n.Log, proxies: n.Front.Proxies, certificates: n.certificates,
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
		Log: n.Log, Topic: topic, Store: n.Reader, Now: n.Now, Retention: n.Settings.Retention(),
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
