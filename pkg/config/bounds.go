package config

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/conflog"
)

// Bounds of what the configuration holds of a kind; see conflog.Bounds.
const (
	// MaxEndpoints is how many endpoints there may be.
	MaxEndpoints = 200_000
	// MaxAnswersBytes is how much may be remembered under Idempotency-Keys, in bytes. New claims leave answersReserve
	// of it to the answers of those that have their claim.
	MaxAnswersBytes = 64 << 20
	answersReserve  = 1 << 20
	// MaxRecoveries is how many recovery jobs may be made in 30 days, which is how long one is kept.
	MaxRecoveries = 5_000
	// maxAlerts is how many alerts have a state.
	maxAlerts = 100_000
)

// Reasons why the configuration does not grow. Changes that take something away are never refused for them.
var (
	// ErrAnswersFull means that the answers of the last 24 hours fill the room for them.
	ErrAnswersFull = errors.New("the remembered answers fill their room")
	// ErrRecoveryHistoryFull means that as many recovery jobs were made in 30 days as may be.
	ErrRecoveryHistoryFull = fmt.Errorf("%d recovery jobs were made in the last 30 days", MaxRecoveries)
	// ErrTooManyEndpoints means that there are as many endpoints as may be.
	ErrTooManyEndpoints = fmt.Errorf("there are %d endpoints", MaxEndpoints)
)

// exempt reports whether a change takes something away and does nothing else, so that it is made also when nothing may
// grow. Switching things off makes an entity a few bytes larger, the same few each time.
func isExempt(old, new value) bool {
	switch old := old.(type) {
	case *Endpoint:
		return onlyRestricts(old, new.(*Endpoint))
	case *Key:
		return old.RevokedAt.IsZero() && !new.(*Key).RevokedAt.IsZero()
	case *User: // a reset: the password goes, and every session ends
		return new.(*User).Password == ""
	case *Answer: // how a call ended, without what it answered
		return new.(*Answer).Answer == ""
	}
	return false
}

// onlyRestricts reports whether an endpoint differs in nothing but what was disabled, paused, purged, removed, or made
// useless to whoever knows it: tokens and signing secrets that are replaced.
func onlyRestricts(before, after *Endpoint) bool {
	want := *before
	want.UpdatedAt = after.UpdatedAt
	want.Enabled, want.Paused = before.Enabled && after.Enabled, before.Paused || after.Paused
	want.Token, want.TokenHash, want.FormerToken, want.TokenRotatedBy = after.Token, after.TokenHash, after.FormerToken,
		after.TokenRotatedBy
	want.Destinations = nil
	for _, d := range before.Destinations {
		now := after.Destination(d.ID)
		if now == nil {
			continue
		}
		d.Enabled, d.Paused = d.Enabled && now.Enabled, d.Paused || now.Paused
		if now.PurgeBefore.After(d.PurgeBefore) {
			d.PurgeBefore = now.PurgeBefore
		}
		if !now.Enabled {
			d.StateReason = now.StateReason
		}
		d.Secrets = now.Secrets
		want.Destinations = append(want.Destinations, d)
	}
	x, errX := json.Marshal(&want)
	y, errY := json.Marshal(after)
	return errX == nil && errY == nil && string(x) == string(y)
}

// Size is how much of a bound is used.
type BoundUsage struct {
	Name        string
	Used, Limit int64
}

// Sizes are the bounds that a caller can fill, and how far they are.
func (c *core) BoundsUsage() []BoundUsage {
	v := c.View()
	return []BoundUsage{
		{"bytes of configuration", v.TotalBytes(), conflog.MaxStateBytes},
		{"endpoints", int64(v.Len(kindEndpoint)), MaxEndpoints},
		{"bytes of remembered answers", v.Bytes(kindAnswer), MaxAnswersBytes},
		{"recovery jobs of 30 days", int64(v.Len(kindRecovery)), MaxRecoveries},
		{"erased payloads", int64(v.Len(kindErasure)), MaxErasures},
	}
}

// register makes the metrics of what fills the bounds.
func (c *core) registerMetrics(reg prometheus.Registerer) {
	if reg == nil {
		return
	}
	gauge := func(name, help string, read func(*conflog.View) float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(c.View()) }))
	}
	bound := func(n float64) func(*conflog.View) float64 {
		return func(*conflog.View) float64 { return n }
	}
	gauge("relay_control_endpoints", "Endpoints that exist.",
		func(v *conflog.View) float64 { return float64(v.Len(kindEndpoint)) })
	gauge("relay_control_endpoints_limit", "Endpoints that may exist.", bound(MaxEndpoints))
	gauge("relay_control_idempotency_bytes", "Size of what is remembered under Idempotency-Keys.",
		func(v *conflog.View) float64 { return float64(v.Bytes(kindAnswer)) })
	gauge("relay_control_idempotency_limit_bytes", "Size that may be remembered under Idempotency-Keys.",
		bound(MaxAnswersBytes))
	gauge("relay_control_recoveries", "Recovery jobs of the last 30 days.",
		func(v *conflog.View) float64 { return float64(v.Len(kindRecovery)) })
	gauge("relay_control_recoveries_limit", "Recovery jobs that may be made in 30 days.", bound(MaxRecoveries))
}
