package sim

import (
	"github.com/eventrelay/relay/api/account"
	"github.com/eventrelay/relay/api/endpoints"
	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/api/jobs"
)

// unused stands for parts of the API that no client of the simulation calls: a call of one panics.
type unused struct {
	account.AuditLog
	account.Notifier
	endpoints.TrafficReader
}

type (
	metered     = account.Usage
	noUsage     struct{ metered }
	noSelection struct{ jobs.Selector }
	// unread is the store of the event feed, which nobody watches.
	unread struct{ feed.Store }
)
