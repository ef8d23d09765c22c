// Package features has how a capability joins the relay that the relay works without. Each is a folder here with all of
// its layers, and a Feature in the list of package node. A feature imports the core and no other feature; the core
// imports none.
package features

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/ingest/assigned"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/usage/alert"
)

// Feature is one capability.
type Feature struct {
	Name string
	// New makes its parts for one node; nil: none. It starts nothing.
	New func(*Host) Parts
	// Pages returns its pages of the dashboard; nil: none.
	Pages func() ui.Area
	// Check is its part of relay doctor; nil: none.
	Check nodeconfig.CheckFunc
	// Commands are its subcommands.
	Commands []cli.Command
}

// Parts are what a feature adds to a node. Each may be missing.
type Parts struct {
	Hooks  []Start // components that start before the dispatcher
	Stages []Start // components that start after ingest
	// API returns its routes under /v1. It is called once, after all stages are created.
	API     func(*api.Core) api.Area
	Callers []Start // components that start after the API, and call it
	// Answers are its commands on the command socket that are answered with one value, by pattern.
	Answers map[string]func(*http.Request) (any, error)
	// Steps are those that are answered with a line for each step.
	Steps map[string]func(r *http.Request, report func(any)) error
	// Serve returns the handler of a path outside of /v1, /app and /in, nil for a path of others. notServed answers on
	// nodes whose roles leave the path out.
	Serve func(path string, notServed http.Handler) http.Handler
}

// Start is one component of a node. It stops before those that started earlier.
type Start struct {
	Name string
	Role string // only nodes with this role start it; "" = every node
	// New creates it and returns its Run; nil = it has no goroutine of its own.
	New func() (run func(context.Context) error, err error)
}

// Host is what the components of a node share. Those of the first group are set from the beginning, each other once its
// component is created.
type Host struct {
	NodeName     string
	InstanceID   string // of static memberships of groups; "" on a node that is alone
	Version      string
	DNSServer    string        // "" = the system's
	ScanInterval time.Duration // pause between the requests of a leak scan; 0 = the default. Tests shorten it.
	Log          *slog.Logger
	Metrics      prometheus.Registerer
	Settings     *nodeconfig.Config
	Keyring      *seal.Keyring
	Stream       stream.Config
	Now          func() time.Time
	Policy       egress.Policy // complete once all components before ingest are created
	// Outbound returns the settings of requests to addresses of customers. Ask when a component is created: the addresses
	// that it refuses are complete only then.
	Outbound func() egress.Config
	// OpenFiles returns how many files this process may open, and how many it should.
	OpenFiles func() (most, want int)
	// Owned returns the partitions of events that this node dispatches.
	Owned func() []int32

	PublicURL    string
	DashboardURL string // links to pages of the dashboard begin with it
	PortalURL    string // of the first page of the portal
	Control      *config.Control
	Partitions   int32 // of the keyed topics
	Limiter      *limit.Limiter
	Claims       claim.Store
	Producer     *stream.Producer
	KeyUses      api.KeyUses
	Reader       *read.Reader
	Alerts       *alert.Alerts // nil without the role dispatch
	Ingest       *ingest.Ingest
	Assigned     assigned.Endpoints // those in the partitions that this node dispatches
	Front        *web.Front
	API          ui.Caller // nil without the role api
	// OwnsFirstPartition says whether this node does what one node does for all.
	OwnsFirstPartition atomic.Bool

	Hooks
}

// Hooks are what the core asks on its own path. A feature sets those that it answers, in a start or in New; nil costs
// nothing. Each has room for one feature.
type Hooks struct {
	// Tripwires recognises fake ingest URLs and API keys.
	Tripwires interface {
		ingest.Tripwires
		api.Refusals
	}
	// UseHit returns the record of an event that used a tripwire.
	UseHit func(context.Context, *event.Event) (partition int32, hit *stream.Record, err error)
	// Scan looks at the events that the store writer has read, before their offsets are committed. New sets it up: the
	// writer starts before all features.
	Scan func() (func(context.Context, []*event.Event) error, error)
	// CountFailures returns the failure counter of a partition that this node owns.
	CountFailures func(partition int32) alert.FailureCounter
	// DroppedHits counts the hits that made no finding, for relay doctor.
	DroppedHits func() int64
	// BackedUp returns when the last backup of this node began, zero if there is none; nil: its engines are elsewhere.
	BackedUp func() (time.Time, error)
	// Examine examines this node and its engines, for up to half a minute, for a page.
	Examine func(context.Context) ([]ui.Check, error)
	// AgentActions reads and decides on changes that agents ask for.
	AgentActions ui.AgentActions
	// CataloguePage draws the public page of the catalogue.
	CataloguePage func(title string, types []EventType) (*api.Page, error)
	// Inside are destinations in this process; see egress.Config. TryURL is one that answers each request with 200.
	Inside map[string]http.RoundTripper
	TryURL string
	// ReferencePath is the page about the API.
	ReferencePath string
}

// EventType is an event type on the public page of the catalogue.
type EventType struct {
	Name, Description, Group string
	Deprecated               bool
	Version                  int
	Schema                   []byte // JSON without references; empty: none, or too long for that
	Raw, Example             string // the schema as it was written, and an example
}
