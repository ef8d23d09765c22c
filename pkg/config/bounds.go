package config

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Bounds of the configuration, which is in the memory of every node and in every snapshot. They are constants, and
// apply judges them by nothing but the state and the record: every node refuses the same records. Sizes are those of
// the JSON, not of what a compressor makes of it, which may change with its version. What is beyond a bound already
// stays, and may shrink; only growth is refused.
const (
	// MaxEndpoints is how many endpoints there may be.
	MaxEndpoints = 200_000
	// MaxEntity is how large one entity may be, in bytes.
	MaxEntity = 256 << 10
	// MaxState is how large all entities together may be, in bytes.
	MaxState = 512 << 20
	// MaxRemembered is how much may be remembered under Idempotency-Keys, in bytes. New claims leave rememberedReserve
	// of it to the answers of those that have their claim.
	MaxRemembered     = 64 << 20
	rememberedReserve = 1 << 20
	// MaxRecoveries is how many recovery jobs may be made in 30 days, which is how long one is kept.
	MaxRecoveries = 5_000
	// maxAlerts is how many alerts have a state.
	maxAlerts = 100_000
	// maxTombstones is how many deleted entities of a kind are remembered; beyond it the oldest is forgotten early, for a
	// deletion is never refused. What is still open of such an endpoint then ends by its deadline.
	maxTombstones = 200_000
)

// Reasons why the configuration does not grow. Changes that take something away are never refused for them.
var (
	// ErrFull means that the answers of the last 24 hours fill the room for them.
	ErrFull = errors.New("the remembered answers fill their room")
	// ErrRecoveryHistory means that as many recovery jobs were made in 30 days as may be.
	ErrRecoveryHistory = fmt.Errorf("%d recovery jobs were made in the last 30 days", MaxRecoveries)
	// ErrEndpoints means that there are as many endpoints as may be.
	ErrEndpoints = fmt.Errorf("there are %d endpoints", MaxEndpoints)
	// ErrEntityTooLarge means that one entity would be larger than may be.
	ErrEntityTooLarge = fmt.Errorf("it would be larger than %d bytes", MaxEntity)
	// ErrStateFull means that the whole configuration would be larger than may be.
	ErrStateFull = fmt.Errorf("the configuration would be larger than %d MiB", MaxState>>20)
)

// exceeds reports which bound a put goes beyond. exempt is that of the record.
func (s *state) exceeds(k kind, old *entity, size int, exempt bool) error {
	grown := size
	if old != nil {
		grown -= int(old.size)
	}
	if old != nil && (grown <= 0 || exempt) {
		return nil
	}
	if size > MaxEntity {
		return ErrEntityTooLarge
	}
	set := &s.sets[k]
	switch k {
	case kindAnswer:
		room := int64(MaxRemembered)
		if old == nil {
			room -= rememberedReserve
		}
		return unless(set.bytes+int64(grown) <= room, ErrFull)
	case kindErasure: // small, and nobody shall wait for room to erase something
		return unless(old != nil || set.bySeq.len < MaxErasures, ErrErasures)
	case kindAlert: // small, and a full configuration is no reason to be silent
		return unless(old != nil || set.bySeq.len < maxAlerts, ErrStateFull)
	case kindRecovery, kindRun: // what has begun goes on
		if old != nil {
			return nil
		}
		if k == kindRecovery && set.bySeq.len >= MaxRecoveries {
			return ErrRecoveryHistory
		}
	case kindEndpoint:
		if old == nil && set.bySeq.len >= MaxEndpoints {
			return ErrEndpoints
		}
	}
	return unless(s.bytes()+int64(grown) <= MaxState, ErrStateFull)
}

func unless(holds bool, err error) error {
	if holds {
		return nil
	}
	return err
}

// bytes is the size of all living entities.
func (s *state) bytes() (n int64) {
	for i := range s.sets {
		n += s.sets[i].bytes
	}
	return n
}

// exempt reports whether a change takes something away and does nothing else, so that it is made also when nothing may
// grow. Switching things off makes an entity a few bytes larger, the same few each time.
func exempt(old, new value) bool {
	switch old := old.(type) {
	case *Endpoint:
		return onlyTakesAway(old, new.(*Endpoint))
	case *Key:
		return old.RevokedAt.IsZero() && !new.(*Key).RevokedAt.IsZero()
	case *User: // a reset: the password goes, and every session ends
		return new.(*User).Password == ""
	case *Answer: // how a call ended, without what it answered
		return new.(*Answer).Answer == ""
	}
	return false
}

// onlyTakesAway reports whether an endpoint differs in nothing but what was disabled, paused, purged, removed, or made
// useless to whoever knows it: tokens and signing secrets that are replaced.
func onlyTakesAway(before, after *Endpoint) bool {
	want := *before
	want.UpdatedAt = after.UpdatedAt
	want.Enabled, want.Paused = before.Enabled && after.Enabled, before.Paused || after.Paused
	want.Token, want.TokenHash, want.FormerToken, want.TokenBy = after.Token, after.TokenHash, after.FormerToken, after.TokenBy
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
type Size struct {
	What       string
	Used, Most int64
}

// Sizes are the bounds that a caller can fill, and how far they are.
func (c *Control) Sizes() []Size {
	s := c.view.Load()
	return []Size{
		{"bytes of configuration", s.bytes(), MaxState},
		{"endpoints", int64(s.sets[kindEndpoint].bySeq.len), MaxEndpoints},
		{"bytes of remembered answers", s.sets[kindAnswer].bytes, MaxRemembered},
		{"recovery jobs of 30 days", int64(s.sets[kindRecovery].bySeq.len), MaxRecoveries},
		{"erased payloads", int64(s.sets[kindErasure].bySeq.len), MaxErasures},
	}
}
