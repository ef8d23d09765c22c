package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/id"
)

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

func idCheck(ids *id.Generator) api.Check {
	return api.Check{Name: "ids", Func: func(context.Context) error {
		if ahead := ids.Ahead(); ahead > id.MaxAhead {
			return fmt.Errorf("issued ids are ahead of the clock by %v: no event is accepted for another %v", ahead,
				ahead-id.MaxAhead)
		}
		return nil
	}}
}
