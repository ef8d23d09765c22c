package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
)

// Deps are the dependencies of the API. All but Leaks, Refusals, Resolver, Metrics and Ready are required; the zero
// Egress allows public addresses only.
type Deps struct {
	Replays
	Log          *slog.Logger
	Config       Configuration
	Keyring      *config.Keyring
	Events       EventReader
	Recovery     RecoveryReader
	Accept       Accepter
	Feed         *feed.Feed // for GET …/stream
	Commands     Commander
	Receipts     Receipts
	Erasures     Erasures
	Usage        Usage
	Traffic      TrafficReader
	Leaks        *Leaks // nil: the routes of leaks are not served
	Limits       Limits
	LimiterStore LimiterStore
	Notifier     Notifier
	Audit        AuditLog
	KeyUses      KeyUses
	Refusals     Refusals // may be nil
	Egress       egress.Policy
	// Resolver resolves the hosts of saved destinations, to warn about internal addresses; nil turns the warnings
	// off.
	Resolver *net.Resolver
	IDs      *id.Generator
	Now      func() time.Time
	Metrics  prometheus.Registerer
	// Ready holds the checks of /readyz; nil: always ready.
	Ready *Readiness
	// ValidateVerification checks the signature settings of an endpoint, secrets in clear. It returns the invalid
	// member and what is wrong with it, or empty texts.
	ValidateVerification func(v config.Verification, secrets []string) (param, message string)
	// Reverify checks the signature of a rejected event again.
	Reverify reverifier
	// Explain explains the signature of an event with the endpoint's current secrets, nil if the endpoint verifies none.
	// The explanation may contain the token of the ingest URL.
	Explain func(ep *config.Endpoint, e *event.Event) (*verify.Explanation, error)
	// Sample builds a test event as the provider would send it, signed if the endpoint has the provider's secret. An
	// empty kind selects the provider's most common type.
	Sample func(ep *config.Endpoint, provider, kind string, d id.ID) (*event.Event, error)
}

// Leaks is what the routes of log drains, DSNs, domains, scans, tripwires and findings need beside the configuration.
type Leaks struct {
	Senders  Senders
	Domains  DomainVerifier
	Findings FindingReader
}

// validate returns the missing dependencies as one error.
func (d Deps) validate() error {
	var errs []error
	for name, present := range map[string]bool{
		"Selection": d.Selection != nil, "Runs": d.Runs != nil, "Answers": d.Answers != nil,
		"Log": d.Log != nil, "Config": d.Config != nil, "Keyring": d.Keyring != nil, "Events": d.Events != nil,
		"Recovery": d.Recovery != nil, "Accept": d.Accept != nil, "Feed": d.Feed != nil, "Commands": d.Commands != nil,
		"Receipts": d.Receipts != nil, "Erasures": d.Erasures != nil, "Usage": d.Usage != nil,
		"Traffic": d.Traffic != nil,
		"Limits":  d.Limits != nil, "LimiterStore": d.LimiterStore != nil, "Notifier": d.Notifier != nil,
		"Audit": d.Audit != nil, "KeyUses": d.KeyUses != nil,
		"IDs": d.IDs != nil, "Now": d.Now != nil,
		"ValidateVerification": d.ValidateVerification != nil, "Reverify": d.Reverify != nil,
		"Explain": d.Explain != nil, "Sample": d.Sample != nil,
	} {
		if !present {
			errs = append(errs, fmt.Errorf("api dependency %s is missing", name))
		}
	}
	return errors.Join(errs...)
}

// Configuration is the configuration log as far as the API uses it.
type Configuration interface {
	Keys
	Endpoints
	AlertSettings
	Recoveries
	Scans
	DSNs
	Tripwires
	Findings
	Fixtures
	DetectionSettings
	// Sync waits until this node has applied all records that are in the log now.
	Sync(ctx context.Context) error
	config.Access // for config.Get, List, Create, Update and Delete
}

// Keys authenticates API keys.
type Keys interface {
	Authenticate(key string) (*config.Key, error)
	// MarkUsedFromBrowser records that a browser has sent the key. It does not wait.
	MarkUsedFromBrowser(k *config.Key)
}

// Endpoints reads and changes endpoints. A change returns after this node has applied it.
type Endpoints interface {
	Endpoint(id string) (*config.Endpoint, config.Presence)
	// EndpointByToken returns the endpoint whose ingest URL has that token, or had it and accepts it still; or nil.
	EndpointByToken(token string) *config.Endpoint
	// Endpoints returns the endpoints created before that sequence (0 = all), newest first, and whether more follow.
	Endpoints(account string, beforeSeq int64, limit int) ([]*config.Endpoint, bool)
	// EndpointsWhere returns those that match. If match says stop, it returns what it has found, and false.
	EndpointsWhere(account string, beforeSeq int64, limit int, match func(*config.Endpoint) (yes, stop bool),
	) ([]*config.Endpoint, bool)
	CreateEndpoint(ctx context.Context, e *config.Endpoint) (*config.Endpoint, error)
	// UpdateEndpoint calls change with a copy of the newest endpoint, and again after a write conflict. If change
	// alters nothing, nothing is written.
	UpdateEndpoint(ctx context.Context, id string, change func(*config.Endpoint) error) (*config.Endpoint, error)
	// CheckCreate returns the error of a bound that CreateEndpoint would return.
	CheckCreate(e *config.Endpoint) error
	// CheckUpdate returns what UpdateEndpoint would make of an endpoint, or its error.
	CheckUpdate(e *config.Endpoint, change func(*config.Endpoint) error) (*config.Endpoint, error)
	// DeleteEndpoint returns config.ErrConflict if rev is not 0 and not the endpoint's revision.
	DeleteEndpoint(ctx context.Context, id string, rev int64) error
}

// Scans creates leak scans.
type Scans interface {
	Scan(id string) (*config.Scan, config.Presence)
	Scans(account string, domains []string, beforeSeq int64, limit int) ([]*config.Scan, bool)
	OpenScan() *config.Scan
	CreateScan(ctx context.Context, s *config.Scan) (*config.Scan, error)
}

// Tripwires issues the secrets of tripwires. A change returns after this node has applied it.
type Tripwires interface {
	Tripwire(id string) (*config.Tripwire, config.Presence)
	// CreateTripwire and RotateTripwire return the secrets, which are stored nowhere.
	CreateTripwire(ctx context.Context, t *config.Tripwire) (*config.Tripwire, config.TripwireText, error)
	RotateTripwire(ctx context.Context, id, by string) (*config.Tripwire, config.TripwireText, error)
	ExpectTripwireTest(ctx context.Context, id string, from netip.Addr) (*config.Tripwire, error)
	// FindingKeys returns the keys from which the ids of their findings derive.
	FindingKeys(ctx context.Context) (finding.Keys, error)
	Finding(id string) (*config.Finding, config.Presence)
}

// DomainVerifier looks for the proofs of domains.
type DomainVerifier interface {
	// Verify returns the domain with the result; or, after too many attempts, for how long none is made.
	Verify(ctx context.Context, d *config.Domain, method string) (after *config.Domain, pause time.Duration, err error)
}

// DSNs opens the keys of DSNs.
type DSNs interface {
	// PublicKey returns the public key of a DSN.
	PublicKey(ctx context.Context, d *config.DSN) (string, error)
}

// DetectionSettings reads and changes what the account looks for beside the built-in rules.
type DetectionSettings interface {
	Settings() *config.Settings
	// UpdateDetection calls change with a copy of the newest settings, and again after a write conflict.
	UpdateDetection(ctx context.Context, change func(*config.Detection) error) (*config.Settings, error)
}

// Fixtures creates fixtures, as many as there may be.
type Fixtures interface {
	CreateFixture(ctx context.Context, f *config.Fixture) (*config.Fixture, error)
}

// Senders reads what drains and DSNs have received.
type Senders interface {
	// Received returns what came from the senders since a time, by sender. Senders without a report are left out.
	Received(ctx context.Context, account string, senders []string, since time.Time) (map[string]finding.Received, error)
}

// EventReader reads events from the store.
type EventReader interface {
	Events(ctx context.Context, q event.Query) (event.Page, error)
	Event(ctx context.Context, account string, id id.ID) (*event.Detail, error)
	Attempts(ctx context.Context, account string, event, before id.ID, limit int) (event.AttemptPage, error)
	// Summaries returns the list rows of up to 1,000 events, by id, without those that are not stored.
	Summaries(ctx context.Context, account string, ids []id.ID) (map[id.ID]event.Summary, error)
}

// Accepter writes events, complete with their ids, to the log. It returns when they are durable or after its time
// limit; then an event may still become durable later.
type Accepter interface {
	Accept(ctx context.Context, e *event.Event, ep *config.Endpoint) error
	// AcceptAll writes several events at the same time and returns an error or nil for each.
	AcceptAll(ctx context.Context, es []*event.Event, ep *config.Endpoint) []error
}

// Receipts stores what receivers report about the processing of events.
type Receipts interface {
	// EventEndpoint returns the endpoint that an event belongs to.
	EventEndpoint(ctx context.Context, account string, d id.ID) (string, error)
	// Report writes a receipt to the log and returns the resulting state. event.ErrUnavailable means that the receipt
	// is in the log, but the store is too far behind to return its effect.
	Report(ctx context.Context, r *event.Receipt) (event.ReceiptResult, error)
}

// Erasures erases payloads on request.
type Erasures interface {
	// ErasePayload erases the payload of an event and returns when it was erased first. From then on no node shows
	// the payload, sends it or stores it again.
	ErasePayload(ctx context.Context, d id.ID) (time.Time, error)
	// ErasedAt returns when the payload of an event was erased, zero if it was not.
	ErasedAt(d id.ID) time.Time
}

// Usage returns what an account has used.
type Usage interface {
	// Usage returns the use of this month.
	Usage(ctx context.Context, account string) (*event.Usage, error)
	// Period returns the use of a month that has ended, given its first moment. OldestPeriod returns that of the oldest
	// month that is kept.
	Period(ctx context.Context, account string, from time.Time) (*event.Usage, error)
	OldestPeriod() time.Time
	// LastDays returns the use of the last 30 days, by day, and by day and endpoint.
	LastDays(ctx context.Context, account string) (*event.UsageDays, error)
}

// LimiterStore holds short-lived state that all nodes share (Redis). The state may be lost; no request fails because
// of that.
type LimiterStore interface {
	// HeldUntil returns, for those of up to 1,000 destinations that an open circuit breaker holds, until when.
	HeldUntil(ctx context.Context, dests []string) map[string]time.Time
	claim.Store // of sends with an Idempotency-Key
}

// AuditLog reads the audit log.
type AuditLog interface {
	// Audit returns the entries in the store.
	Audit(ctx context.Context, q audit.Query) (audit.Page, error)
	// Outbox returns the newest matching entries that the store may not have yet, at most one more than the limit.
	Outbox(q audit.Query) []audit.Entry
}

// Refusals learns of every request with a wrong API key: it may be that of a tripwire.
type Refusals interface {
	// CheckKey does not wait, and takes as long for every key.
	CheckKey(text string, r *http.Request)
}

// KeyUses counts every request with a valid API key, for the audit log.
type KeyUses interface {
	RecordUse(account, key, name string, from netip.Addr)
}
