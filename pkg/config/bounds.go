package config

import (
	"errors"

	"github.com/eventrelay/relay/pkg/config/entity"
)

// Bounds of the kinds; see conflog.Bounds.
const (
	// MaxSources is the maximum number of endpoints with a source or a reconciliation, each with a client of some MiB.
	MaxSources = 100
	// MaxTenantSources is that of the endpoints of one tenant.
	MaxTenantSources = 5
	// MaxEndpoints is the maximum number of endpoints.
	MaxEndpoints = 200_000
	// MaxAnswersBytes is the room for remembered answers in bytes. New claims leave answersReserve of it for the
	// answers to existing claims.
	MaxAnswersBytes = 64 << 20
	answersReserve  = 1 << 20
	// MaxRecoveries is the maximum number of recovery jobs in 30 days, which is how long one is kept.
	MaxRecoveries = 5_000
	// maxAlerts is the maximum number of alerts.
	maxAlerts = 100_000
	// MaxUsers is the maximum number of users. A sign-in link is searched for among all of them.
	MaxUsers = 1000
)

// Errors of the bounds. Changes that only restrict or revoke something never return them.
var (
	// ErrAnswersFull means that the remembered answers fill the room that the claim or answer may use; see ClaimAnswer.
	ErrAnswersFull = errors.New("the room for remembered answers is full")

	ErrRecoveryHistoryFull = entity.TooMany(MaxRecoveries, "recovery jobs in 30 days")
	ErrTooManyEndpoints    = entity.TooMany(MaxEndpoints, "endpoints")
	ErrTooManyUsers        = entity.TooMany(MaxUsers, "users")
	ErrTooManyFixtures     = entity.TooMany(MaxFixtures, "fixtures")
)
