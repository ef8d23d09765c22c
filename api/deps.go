package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
)

// Deps are what the stage works with. All but Resolver, Metrics and Ready are needed.
type Deps struct {
	Replays
	Log          *slog.Logger
	Config       Configuration
	Keyring      *config.Keyring
	Events       EventReader
	Recovery     RecoveryReader
	Accept       Accepter
	Feed         *feed.Feed // for the event stream
	Commands     Commander
	Receipts     Receipts
	Erasures     Erasures
	Usage        Usage
	Limits       Limits
	LimiterStore LimiterStore
	Notifier     Notifier
	Audit        AuditLog
	KeyUses      KeyUses
	Egress       egress.Policy
	// Resolver is asked for the hosts of destinations that are saved, for warnings; nil for none.
	Resolver *net.Resolver
	IDs      *id.Generator
	Now      func() time.Time
	Metrics  prometheus.Registerer
	// Ready is what /readyz answers from; nil: always ready.
	Ready *Readiness
	// Verification judges how a provider signs, secrets in clear: the member at fault and what is wrong
	// with it, or nothing.
	ValidateVerification func(v config.Verification, secrets []string) (param, message string)
	// Reverify judges the signature of a rejected event again, by the present secrets and without its
	// age; an empty reason means that it is good now.
	Reverify func(ep *config.Endpoint, e *event.Event) (event.Reason, error)
	// Sample makes a test event as a provider would send it, signed if the endpoint has the provider's secret; the
	// kind is the usual one when it is empty.
	Sample func(ep *config.Endpoint, provider, kind string, d id.ID) (*event.Event, error)
}

// validate reports every dependency that is missing.
func (d Deps) validate() error {
	var errs []error
	for name, there := range map[string]bool{
		"Recovery": d.Recovery != nil,
		"Log":      d.Log != nil, "Config": d.Config != nil, "Keyring": d.Keyring != nil, "Events": d.Events != nil,
		"Accept": d.Accept != nil,
		"Feed":   d.Feed != nil, "Commands": d.Commands != nil, "Receipts": d.Receipts != nil, "Erasures": d.Erasures != nil,
		"Usage": d.Usage != nil, "Limits": d.Limits != nil, "Memory": d.LimiterStore != nil, "Notifier": d.Notifier != nil,
		"IDs": d.IDs != nil, "Now": d.Now != nil, "Verification": d.ValidateVerification != nil,
		"Reverify": d.Reverify != nil,
		"Audit":    d.Audit != nil, "Uses": d.KeyUses != nil, "Sample": d.Sample != nil,
	} {
		if !there {
			errs = append(errs, fmt.Errorf("api dependency %s is missing", name))
		}
	}
	return errors.Join(errs...)
}

// Configuration is what the API needs of the configuration log.
type Configuration interface {
	Keys
	Endpoints
	AlertSettings
	Recoveries
	// Sync waits until this node has applied everything that is in the log now.
	Sync(ctx context.Context) error
}

// Keys says who may call.
type Keys interface {
	Authenticate(key string) (*config.Key, error)
}

// Endpoints reads and changes endpoints. A change is answered when this node has applied it.
type Endpoints interface {
	Endpoint(id string) (*config.Endpoint, config.Presence)
	// Endpoints returns those created before the one with that sequence (0 = all), newest first, and
	// whether more follow.
	Endpoints(account string, beforeSeq int64, limit int) ([]*config.Endpoint, bool)
	CreateEndpoint(ctx context.Context, e *config.Endpoint) (*config.Endpoint, error)
	// UpdateEndpoint calls change with a copy of the newest value, again after a conflict. When change
	// alters nothing, nothing is written.
	UpdateEndpoint(ctx context.Context, id string, change func(*config.Endpoint) error) (*config.Endpoint, error)
	DeleteEndpoint(ctx context.Context, id string) error
}

// EventReader answers from the store.
type EventReader interface {
	Events(ctx context.Context, q event.Query) (event.Page, error)
	Event(ctx context.Context, account string, id id.ID) (*event.Detail, error)
	Attempts(ctx context.Context, account string, event, before id.ID, limit int) (event.AttemptPage, error)
	// Summaries returns the rows of those of the events, 1,000 at most, that are stored.
	Summaries(ctx context.Context, account string, ids []id.ID) (map[id.ID]event.Summary, error)
}

// Accepter puts an event, complete with its id, into the log and returns when it is durable, or when that has
// taken too long to wait for: then it may become durable later.
type Accepter interface {
	Accept(ctx context.Context, e *event.Event, ep *config.Endpoint) error
	// AcceptAll does so with several at the same time and returns an error or nil for each.
	AcceptAll(ctx context.Context, es []*event.Event, ep *config.Endpoint) []error
}

// Receipts keeps what receivers say about the processing of events.
type Receipts interface {
	// EventEndpoint is the endpoint that an event belongs to.
	EventEndpoint(ctx context.Context, account string, d id.ID) (string, error)
	// Report puts a receipt into the log and returns what became of it. The error event.ErrUnavailable says that
	// it is in the log, but that the store is too far behind to tell.
	Report(ctx context.Context, r *event.Receipt) (event.ReceiptResult, error)
}

// Erasures are the payloads that were erased on request.
type Erasures interface {
	// ErasePayload erases the payload of an event and returns when that was done first. From then on no node shows it,
	// sends it, or stores it again.
	ErasePayload(ctx context.Context, d id.ID) (time.Time, error)
	// ErasedAt is when the payload of an event was erased; zero when it was not.
	ErasedAt(d id.ID) time.Time
}

// Usage says what an account has used in the current period.
type Usage interface {
	Usage(ctx context.Context, account string) (*event.Usage, error)
}

// Memory is what all nodes remember together for a while. It may forget: nothing fails for that.
type LimiterStore interface {
	// Held returns which of the destinations, 1,000 at most, an open breaker holds, and until when.
	HeldUntil(ctx context.Context, dests []string) map[string]time.Time
	// Claim, Stored and Release are the two steps of an Idempotency-Key; see limit.Limiter.
	Claim(ctx context.Context, key string, event id.ID, note string) limit.Claim
	MarkStored(ctx context.Context, key string, event id.ID, note string, window time.Duration) error
	Release(ctx context.Context, key string, event id.ID)
}

// AuditLog says who changed what.
type AuditLog interface {
	// Audit returns what the store has.
	Audit(ctx context.Context, q audit.Query) (audit.Page, error)
	// Outbox returns the newest that match of what the store may not have yet, one more than the limit at most.
	Outbox(q audit.Query) []audit.Entry
}

// Uses is told of every request with a key that is valid.
type KeyUses interface {
	RecordUse(account, key, name string, from netip.Addr)
}
