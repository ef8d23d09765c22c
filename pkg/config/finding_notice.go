package config

import (
	"context"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/conflog"
)

// FindingNotice changes an alert so that it carries the message about a finding.
type FindingNotice struct {
	Alert string // id of the alert
	Write func(*alerting.Alert)
}

// Announcer returns the message about a change of a finding; nil = people are not notified. alert returns the state of
// an alert, shared and read-only; nil if it has never changed.
type Announcer func(f *leak.Finding, alert func(id string) *alerting.Alert) *FindingNotice

// DecideFinding changes or creates a finding, and an alert in the same record: both or neither. decide gets the
// finding, nil if there is none, and returns the next one; nil leaves it as it is. announce is nil if nobody is to be
// notified. With a message AnnouncedAt is set. When another writer wins, decide is called again with the newer finding.
//
// It is for changes that the service makes by itself: they are not part of the audit log, and the call does not wait
// for other nodes.
func (c notices) DecideFinding(ctx context.Context, id string,
	decide func(old *leak.Finding) (next *leak.Finding, announce Announcer)) (before, after *leak.Finding, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, nil, err
	}
	old, res, err := c.Transact(ctx, entity.KindFinding, id,
		func(v *conflog.View, e *conflog.Entity) (first conflog.NewValue, second conflog.SecondValue, err error) {
			var was *leak.Finding
			if e != nil {
				was = c.Decoded(e).(*leak.Finding)
			}
			next, announce := decide(was)
			if next == nil {
				return first, second, nil
			}
			now := c.Now().UTC()
			next.ID, next.Account, next.CreatedAt, next.UpdatedAt, next.Version = id, c.Account().ID, now, now, 1
			if was != nil {
				next.Account, next.CreatedAt, next.Version = was.Account, was.CreatedAt, was.Version+1
			}
			if announce != nil {
				if second, err = c.noticeOf(v, next, announce); err != nil {
					return first, second, err
				}
			}
			if second.Value != nil {
				next.AnnouncedAt = next.UpdatedAt
				if next.OpenedAt.After(next.AnnouncedAt) { // by another node's clock
					next.AnnouncedAt = next.OpenedAt
				}
			}
			first.Exempt = next.IsOutsideBounds()
			first.Value, err = c.Encode(e, next)
			return first, second, err
		})
	if err != nil {
		return nil, nil, err
	}
	if old != nil {
		before = c.Decoded(old).(*leak.Finding)
	}
	if res.Entity != nil {
		after = c.Decoded(res.Entity).(*leak.Finding)
	}
	return before, after, nil
}

// noticeOf returns the alert with the message about a finding, as the second change of a transaction.
func (c notices) noticeOf(v *conflog.View, next *leak.Finding, announce Announcer) (p conflog.SecondValue, err error) {
	n := announce(next, func(id string) *alerting.Alert {
		if e := v.FindLiving(entity.KindAlert, id); e != nil {
			return c.Decoded(e).(*alerting.Alert)
		}
		return nil
	})
	if n == nil {
		return p, nil
	}
	a := &alerting.Alert{Meta: entity.Meta{ID: n.Alert, Account: next.Account, CreatedAt: next.UpdatedAt}}
	e := v.FindLiving(entity.KindAlert, n.Alert)
	if e != nil {
		if a, err = entity.CopyOf(c.Core, c.Decoded(e).(*alerting.Alert)); err != nil {
			return p, err
		}
	}
	n.Write(a)
	a.MergeNotices()
	a.UpdatedAt = next.UpdatedAt
	p = conflog.SecondValue{Kind: entity.KindAlert, ID: n.Alert}
	p.Value, err = c.Encode(e, a)
	return p, err
}
