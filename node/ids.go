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

// newIDs makes the generator of the node's ids. After the clock was ahead and was set right, no event gets
// an id until it has caught up, up to 30 s: that is logged once, with its end, and a metric and /readyz show it.
func newIDs(now func() time.Time, log *slog.Logger, reg prometheus.Registerer) *id.Generator {
	ids := id.NewGenerator(now)
	ids.OnStall(func(wait time.Duration) {
		if wait == 0 {
			log.Info("events get ids again")
			return
		}
		log.Error("the clock was set back by more than 30 s: no event is taken until it has caught up with the ids that "+
			"were given out",
			"ahead", wait+id.MaxAhead, "until", now().Add(wait))
	})
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "relay_id_ahead_seconds", Help: "How far the ids given out are ahead of the clock; beyond 30 no event " +
			"is taken.",
	}, func() float64 { return ids.Ahead().Seconds() }))
	return ids
}

func idCheck(ids *id.Generator) api.Check {
	return api.Check{Name: "ids", Func: func(context.Context) error {
		if ahead := ids.Ahead(); ahead > id.MaxAhead {
			return fmt.Errorf("id generator ahead of the clock by %v: no event is taken for another %v", ahead,
				ahead-id.MaxAhead)
		}
		return nil
	}}
}
