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
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// Deps are the dependencies of the area.
type Deps struct {
	Core         *frame.Core
	Alerts       AlertSettings
	Keyring      *seal.Keyring
	Notifier     Notifier
	Egress       egress.Policy
	Usage        Usage
	Audit        AuditLog
	DashboardURL string
	AlertDomains notify.Domains // mail domains that alerts may be sent to
	Version      string
}

// Area serves the routes of the account.
type Area struct {
	alerts *alerts
	usage  *usage
	keys   *keyInfo
	audit  *auditLog
}

// New builds the area.
func New(d *Deps) *Area {
	return &Area{
		alerts: &alerts{
			Core: d.Core, config: d.Alerts, keyring: d.Keyring, notifier: d.Notifier, egress: d.Egress,
			dashboardURL: d.DashboardURL, domains: d.AlertDomains,
		},
		usage: newUsage(d.Core, d.Usage), keys: &keyInfo{d.Version}, audit: &auditLog{Core: d.Core, audit: d.Audit},
	}
}

// Routes returns the routes of the area.
func (a *Area) Routes() []frame.Route {
	return []frame.Route{
		{Path: "/v1/alerts", Methods: frame.Methods{"GET": a.alerts.readAlerts, "PATCH": a.alerts.updateAlerts}},
		{Path: "/v1/alerts/history", Methods: frame.Methods{"GET": a.alerts.listAlerts}},
		{Path: "/v1/alerts/test", Methods: frame.Methods{"POST": a.alerts.testAlerts}},
		{Path: "/v1/usage", Methods: frame.Methods{"GET": a.usage.readUsage}},
		{Path: "/v1/usage/daily", Methods: frame.Methods{"GET": a.usage.readUsageDays}},
		{Path: "/v1/me", Methods: frame.Methods{"GET": a.keys.me}},
		{Path: "/v1/audit", Methods: frame.Methods{"GET": a.audit.listAudit}},
	}
}

// AddNeeds adds the alerts that fire to what needs a person.
func (a *Area) AddNeeds(to *wire.OverviewNeeds, account string) {
	firing, _ := a.alerts.config.AlertPage(account, 0, math.MaxInt, func(x *alerting.Alert) bool { return x.Firing })
	for _, x := range firing {
		to.Alerts.Add(newAlertView(x))
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

// AlertSettings reads and changes the alert settings of the account.
type AlertSettings interface {
	AlertSettings() *alerting.AlertSettings
	// UpdateAlertSettings calls change with a copy of the newest settings, and again after a write conflict.
	UpdateAlertSettings(ctx context.Context, change func(*alerting.AlertSettings) error) (*alerting.AlertSettings, error)
	// ChangeAlert creates or changes an alert record with optimistic concurrency. When alter returns
	// alerting.ErrAlertUnchanged, nothing is written.
	ChangeAlert(ctx context.Context, id string, alter func(*alerting.Alert) error) (*alerting.Alert, error)
	// AlertPage returns the alerts created before that sequence (0 = all) for which keep returns true, newest first, and
	// whether more follow.
	AlertPage(account string, beforeSeq int64, limit int, keep func(*alerting.Alert) bool) ([]*alerting.Alert, bool)
}

// Notifier makes one attempt to send a message. Each call ends within notify.Timeout.
type Notifier interface {
	Send(ctx context.Context, c notify.Channel, m notify.Message) notify.Result
	// CanMail reports whether a mail server is configured.
	CanMail() bool
}

// keyInfo serves GET /v1/me.
type keyInfo struct{ version string }

// me describes the API key of the request.
func (a *keyInfo) me(w http.ResponseWriter, _ *http.Request, key *config.Key) error {
	return web.Answer(w, http.StatusOK, wire.Me{AccountID: key.Account, KeyID: key.ID, KeyName: key.Name, Scope: key.Scope,
		Agent: key.Agent, Tenant: key.Tenant, Version: a.version})
}
