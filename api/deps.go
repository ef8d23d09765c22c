package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api/account"
	"github.com/eventrelay/relay/api/catalogue"
	"github.com/eventrelay/relay/api/endpoints"
	"github.com/eventrelay/relay/api/events"
	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/jobs"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
)

// Deps are the dependencies of the API. All but Leaks, Refusals, Resolver, Metrics and Ready are required; the zero
// Egress allows public addresses only.
type Deps struct {
	Replays
	Log          *slog.Logger
	Config       Configuration
	Keyring      *seal.Keyring
	Events       frame.EventReader
	Recovery     jobs.RecoveryReader
	Accept       events.Accepter
	Feed         *feed.Feed // for GET …/stream
	Commands     jobs.Commander
	Receipts     events.Receipts
	Erasures     frame.Erasures
	Usage        account.Usage
	Traffic      endpoints.TrafficReader
	Pulls        endpoints.Pulls
	Leaks        *Leaks // nil: the routes of leaks are not served
	Limits       frame.Limits
	LimiterStore frame.LimiterStore
	Notifier     account.Notifier
	Audit        account.AuditLog
	KeyUses      frame.KeyUses
	Refusals     frame.Refusals // may be nil
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
	Reverify jobs.Reverifier
	// Explain explains the signature of an event with the endpoint's current secrets, nil if the endpoint verifies none.
	// The explanation may contain the token of the ingest URL.
	Explain func(ep *config.Endpoint, e *event.Event) (*verify.Explanation, error)
	// Sample builds a test event as the provider would send it, signed if the endpoint has the provider's secret. An
	// empty kind selects the provider's most common type.
	Sample func(ep *config.Endpoint, provider, kind string, d id.ID) (*event.Event, error)
}

// validate returns the missing dependencies as one error.
func (d Deps) validate() error {
	var errs []error
	for name, present := range map[string]bool{
		"Selection": d.Selection != nil, "Runs": d.Runs != nil, "Answers": d.Answers != nil,
		"Log": d.Log != nil, "Config": d.Config != nil, "Keyring": d.Keyring != nil, "Events": d.Events != nil,
		"Recovery": d.Recovery != nil, "Accept": d.Accept != nil, "Feed": d.Feed != nil, "Commands": d.Commands != nil,
		"Receipts": d.Receipts != nil, "Erasures": d.Erasures != nil, "Usage": d.Usage != nil,
		"Traffic": d.Traffic != nil, "Pulls": d.Pulls != nil,
		"Limits": d.Limits != nil, "LimiterStore": d.LimiterStore != nil, "Notifier": d.Notifier != nil,
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
	frame.Keys
	endpoints.Endpoints
	endpoints.Tenants
	catalogue.Configuration
	account.AlertSettings
	jobs.Recoveries
	events.Fixtures
	leaksConfiguration
	Account() *entity.Account // nil before there is one
	// Sync waits until this node has applied all records that are in the log now.
	Sync(ctx context.Context) error
	entity.Access // for config.Get, List, Create, Update and Delete
}

// Replays are the dependencies of replays and of the Idempotency-Key.
type Replays struct {
	Selection jobs.Selector
	Runs      jobs.Runs
	Answers   frame.Answers
}
