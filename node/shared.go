package node

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/dashboard"
	"github.com/eventrelay/relay/dispatcher/recovery"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/pull"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/usage"
)

// Node is one running process: what its components share, and the components, each of which a function in starts
// creates.
type Node struct {
	features.Host
	stack    *Stack
	registry Metrics
	ids      *id.Generator

	listener     net.Listener
	spans        *spans.Recorder // nil without traces
	pulls        *pull.Router
	certificates certificates // nil: plain HTTP
	writer       *write.Writer
	usage        *usage.Usage
	recovery     *recovery.Runner        // nil without the role dispatch
	trimmer      *stream.Trimmer         // nil without the role dispatch
	owned        atomic.Pointer[[]int32] // partitions that this node dispatches
	notifier     *notify.Sender
	guard        *stream.RetentionGuard
	features     []features.Parts // of Features
	feed         *feed.Feed
	readiness    *api.Readiness
	damage       atomic.Pointer[[]string] // what the last search for damage of the store has found
	api          *api.API
	dashboard    *dashboard.Dashboard // nil without the role api
}

// runFunc runs a component until its context ends.
type runFunc = func(context.Context) error

// Metrics is where the components of a node register their metrics, and what the admin server reads: a
// *prometheus.Registry.
type Metrics interface {
	prometheus.Registerer
	prometheus.Gatherer
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
