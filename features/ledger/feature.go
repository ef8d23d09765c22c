package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
)

// Feature registers this package.
var Feature = features.Feature{Name: "ledger", Check: check, New: func(h *features.Host) features.Parts {
	return features.Parts{Hooks: []features.Start{{Name: "ledger", Role: nodeconfig.RoleDispatch,
		New: func() (func(context.Context) error, error) { return follow(h) }}}}
}}

// follow returns what reconciles the partitions that this node dispatches.
func follow(h *features.Host) (func(context.Context) error, error) {
	if h.Settings.LedgerSeconds == 0 {
		return nil, nil
	}
	cfg := DefaultConfig()
	cfg.Every = time.Duration(h.Settings.LedgerSeconds) * time.Second
	cfg.Window = max(cfg.Window, cfg.Every)
	l, err := New(cfg, Deps{Log: h.Log, Stream: h.Stream, Metrics: h.Metrics, Now: h.Now, Owned: h.Owned})
	if err != nil {
		return nil, err
	}
	return l.Run, nil
}

const (
	// checkSpan is how far back relay doctor reconciles events. checkedPerSecond bounds how fast it reads, so that
	// deliveries have the disk.
	checkSpan        = time.Hour
	checkedPerSecond = 200_000
)

// check reconciles the events of the last hour.
func check(ctx context.Context, conf stream.Config, now func() time.Time) nodeconfig.Check {
	c := nodeconfig.Check{Name: "ledger", State: nodeconfig.StateOK}
	r, err := Audit(ctx, conf, Span{Since: now().Add(-checkSpan), PerSecond: checkedPerSecond})
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrTooMany):
		c.Text = fmt.Sprintf("the last %v has too many events to reconcile here; the metrics relay_ledger_* cover all of "+
			"them", checkSpan)
		return c
	case err != nil:
		c.State, c.Text, c.Advice = nodeconfig.StateWarn, err.Error(), "run relay doctor again"
		return c
	}
	c.Text = r.Counts.String()
	for _, l := range r.Losses {
		c.Details = append(c.Details, l.String())
	}
	if r.Lost > 0 {
		c.State, c.Advice = nodeconfig.StateFail, "deliveries are lost: keep the log as it is, and replay the events of "+
			"these deliveries"
	}
	return c
}
