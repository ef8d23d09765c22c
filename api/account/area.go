// Package account serves what belongs to the account as a whole: its alerts, its usage, its audit log, and the API key
// of a request.
package account

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// Config is what the area shows and allows.
type Config struct {
	DashboardURL string
	AlertDomains notify.Domains // mail domains that alerts may be sent to
	Version      string
}

// Deps are what only this area asks.
type Deps struct {
	Notifier Notifier
	Usage    Usage
	Audit    AuditLog
}

// area is what all handlers of the area have.
type area struct {
	*frame.Core
	Deps
	cfg Config
}

// Area serves the routes of the account.
type Area struct {
	*area
	alerts *alerts
	usage  *usage
	audit  *auditLog
}

// New builds the area.
func New(c *frame.Core, cfg Config, d Deps) *Area {
	all := &area{c, d, cfg}
	return &Area{all, &alerts{all}, newUsage(all), &auditLog{all}}
}

// Routes returns the routes of the area.
func (a *Area) Routes() []frame.Route {
	return []frame.Route{
		{Path: "/v1/alerts", Methods: frame.Methods{"GET": a.alerts.readAlerts, "PATCH": a.alerts.updateAlerts}},
		{Path: "/v1/alerts/history", Methods: frame.Methods{"GET": a.alerts.listAlerts}},
		{Path: "/v1/alerts/test", Methods: frame.Methods{"POST": a.alerts.testAlerts}},
		{Path: "/v1/usage", Methods: frame.Methods{"GET": a.usage.readUsage}},
		{Path: "/v1/usage/daily", Methods: frame.Methods{"GET": a.usage.readUsageDays}},
		{Path: "/v1/me", Methods: frame.Methods{"GET": a.me}},
		{Path: "/v1/audit", Methods: frame.Methods{"GET": a.audit.listAudit}},
	}
}

// AddNeeds adds the alerts that fire to what needs a person.
func (a *Area) AddNeeds(_ context.Context, to *wire.OverviewNeeds, account string) {
	firing, _ := a.Config.AlertPage(account, 0, math.MaxInt, func(x *alerting.Alert) bool { return x.Firing })
	for _, x := range firing {
		to.AddAlert(newAlertView(x))
	}
}

// Usage returns what an account, or a part of it, has used.
type Usage interface {
	// Usage returns the use of this month.
	Usage(ctx context.Context, of event.UsageOf) (*event.Usage, error)
	// Period returns the use of a month that has ended, given its first moment. OldestPeriod returns that of the oldest
	// month that is kept.
	Period(ctx context.Context, of event.UsageOf, from time.Time) (*event.Usage, error)
	OldestPeriod() time.Time
	// LastDays returns the use of the last 30 days, by day, and by day and endpoint.
	LastDays(ctx context.Context, of event.UsageOf) (*event.UsageDays, error)
}

// AuditLog reads the audit log.
type AuditLog interface {
	// Audit returns the entries in the store.
	Audit(ctx context.Context, q audit.Query) (audit.Page, error)
	// Outbox returns the newest matching entries that the store may not have yet, at most one more than the limit.
	Outbox(q audit.Query) []audit.Entry
}

// Notifier makes one attempt to send a message. Each call ends within notify.Timeout.
type Notifier interface {
	Send(ctx context.Context, c notify.Channel, m notify.Message) notify.Result
	// CanMail reports whether a mail server is configured.
	CanMail() bool
}

// me describes the API key of the request.
func (a *Area) me(w http.ResponseWriter, _ *http.Request, key *config.Key) error {
	return web.Answer(w, http.StatusOK, wire.Me{AccountID: key.Account, KeyID: key.ID, KeyName: key.Name, Scope: key.Scope,
		Agent: key.Agent, Tenant: key.Tenant, Version: a.cfg.Version})
}
