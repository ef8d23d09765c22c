package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// MaxTenantEndpoints is the maximum number of endpoints of a tenant, whatever its limits say. Filters name them all.
const MaxTenantEndpoints = 1000

// DefaultTenantEndpoints is the maximum for a tenant without a limit of its own. Endpoints of the largest size then
// have
// 18 MB, so that one tenant fills no more than a 28th of the room that the configuration of all has. One that has more
// keeps them.
const DefaultTenantEndpoints = 100

// tenantName matches the name of a tenant, which is part of paths.
var tenantName = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// IsTenant reports whether a text may be the name of a tenant.
func IsTenant(name string) bool { return tenantName.MatchString(name) && name != "." && name != ".." }

// Tenant is a customer of the account. Its endpoints are labelled with its name, and keys can be restricted to them.
type Tenant struct {
	entity.Meta
	Tenant   string            `json:"tenant"` // the account's name for it
	Name     string            `json:"name,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Limits   TenantLimits      `json:"limits,omitzero"`
	Portal   *TenantPortal     `json:"portal,omitempty"` // nil: the defaults
	// AllowanceEvents is the agreed number of events a month; nil = none.
	AllowanceEvents *int   `json:"allowance_events,omitempty"`
	Own             string `json:"own,omitempty"` // the endpoint that events sent to the tenant go to
	Deleting        bool   `json:"deleting,omitempty"`
	// Endpoints are the ids of its endpoints, oldest first. One may not exist yet, or no longer.
	Endpoints []string `json:"endpoints,omitempty"`
}

// TenantLimits are the limits of a tenant; nil = none.
type TenantLimits struct {
	Endpoints       *int `json:"endpoints" in:"null" minimum:"1" maximum:"1000" description:"Endpoints at most; null: 100."`
	Destinations    *int `json:"destinations" in:"null" minimum:"1" maximum:"50000" description:"Destinations of all its endpoints at most."`
	EventsPerSecond *int `json:"events_per_second" in:"null" minimum:"1" maximum:"100000" description:"Accepted events of all its endpoints at most, over all nodes."`
}

// TenantPortal is how the portal looks to a tenant. Empty members have the defaults.
type TenantPortal struct {
	Title       string `json:"title" in:"name" maxLength:"60" pattern:"@text" description:"Name at the top of each page, such as that of your product. Default: Webhooks."`
	Color       string `json:"color" in:"" maxLength:"7" pattern:"^(#[0-9a-fA-F]{6})?$" description:"Colour of buttons, as #rrggbb, and of links and tabs, made darker or lighter where it would be hard to read. Default: that of the dashboard."`
	LogoURL     string `json:"logo_url" in:"" maxLength:"500" pattern:"^(https://[^ ;,'\"]+)?$" description:"https address of a picture beside the title. Browsers of the tenant fetch it. Default: none."`
	LogoDarkURL string `json:"logo_dark_url" in:"" maxLength:"500" pattern:"^(https://[^ ;,'\"]+)?$" description:"The same for dark pages. Default: logo_url."`
}

// portalColor and portalLogo match what TenantPortal says. Both get into style sheets and headers.
var (
	portalColor = regexp.MustCompile(`^(#[0-9a-fA-F]{6})?$`)
	portalLogo  = regexp.MustCompile(`^(https://[A-Za-z0-9.:-]+(/[^\x00-\x20;,'"\\\x7f-\x{10ffff}]*)?)?$`)
)

// Validate returns an *entity.InvalidError that names the first member that is wrong.
func (p *TenantPortal) Validate() error {
	if p == nil {
		return nil
	}
	switch {
	case !portalColor.MatchString(p.Color):
		return &entity.InvalidError{Param: "portal.color", Message: "must be a colour such as #1d55c4"}
	case !isPicture(p.LogoURL):
		return errPicture("portal.logo_url")
	case !isPicture(p.LogoDarkURL):
		return errPicture("portal.logo_dark_url")
	case utf8.RuneCountInString(p.Title) > 60 || !web.IsPrintable(p.Title):
		return &entity.InvalidError{Param: "portal.title", Message: "must have at most 60 printable characters"}
	}
	return nil
}

func isPicture(address string) bool {
	u, err := url.Parse(address)
	return address == "" || len(address) <= 500 && portalLogo.MatchString(address) && err == nil && u.Hostname() != "" &&
		u.User == nil
}

func errPicture(param string) error {
	return &entity.InvalidError{Param: param, Message: "must be an https URL of ASCII characters without quotes, " +
		"commas, semicolons and passwords"}
}

// LimitError says which limit of a tenant a change or an event would exceed.
type LimitError struct {
	Name string // such as limits.endpoints
	Most int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the tenant's %s is %d", e.Name, e.Most)
}

// errNoTenant refuses what should belong to a tenant that is not there.
func errNoTenant(name string) error {
	return &entity.InvalidError{Param: "tenant", Message: "is not known; create it with PUT /v1/tenants/" + name}
}

// Validate validates a tenant of an import.
func (t *Tenant) Validate() error {
	if !IsTenant(t.Tenant) || t.ID != TenantID(t.Account, t.Tenant) {
		return errors.New("tenant is not a tenant's name, or not that of its id")
	}
	return errors.Join(require.Bounds("limits", &t.Limits), t.Portal.Validate(),
		require.Range("endpoints", len(t.Endpoints), 0, MaxTenantEndpoints), require.Range("allowance_events",
			*cmp.Or(t.AllowanceEvents, new(1)), 1, 1_000_000_000_000))
}

// OnlyRestricts: an endpoint of it was removed.
func (t *Tenant) OnlyRestricts(next entity.Value) bool {
	after := next.(*Tenant)
	return len(after.Endpoints) < len(t.Endpoints) && after.Name == t.Name
}

// Restricts: only a deletion, after its endpoints and keys have ended.
func (t *Tenant) Restricts(next entity.Value) bool { return next == nil }

// TenantID returns the id of a tenant's entity.
func TenantID(account, name string) string { return derivedID(id.Tenant, "tenant "+account+" "+name) }

// Tenant returns the tenant with a name, or nil.
func (c tenants) Tenant(account, name string) *Tenant {
	t, _ := entity.Get[Tenant](c, TenantID(account, name))
	return t
}

// PutTenant creates a tenant, or changes it. change may be called several times; its error is returned as it is.
func (c tenants) PutTenant(ctx context.Context, account, name string, change func(*Tenant) error) (t *Tenant,
	err error) {
	id := TenantID(account, name)
	for {
		t, err = entity.Update(ctx, c, id, change)
		if !errors.Is(err, ErrNotFound) {
			return t, err
		}
		t = &Tenant{Meta: entity.Meta{ID: id, Account: account}, Tenant: name}
		if err = change(t); err != nil {
			return nil, err
		}
		if t, err = entity.Create(ctx, c, t); !errors.Is(err, ErrConflict) { // else another node has created it
			return t, err
		}
	}
}
