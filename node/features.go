//go:build !core

package node

import (
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/agents"
	"github.com/eventrelay/relay/features/apply"
	"github.com/eventrelay/relay/features/backup"
	"github.com/eventrelay/relay/features/catalogue"
	"github.com/eventrelay/relay/features/demo"
	"github.com/eventrelay/relay/features/doctor"
	"github.com/eventrelay/relay/features/fixtures"
	"github.com/eventrelay/relay/features/imports"
	"github.com/eventrelay/relay/features/issues"
	"github.com/eventrelay/relay/features/leaks"
	"github.com/eventrelay/relay/features/ledger"
	"github.com/eventrelay/relay/features/listen"
	"github.com/eventrelay/relay/features/move"
	"github.com/eventrelay/relay/features/plan"
	"github.com/eventrelay/relay/features/portal"
	"github.com/eventrelay/relay/features/reconcile"
	"github.com/eventrelay/relay/features/reference"
	"github.com/eventrelay/relay/features/upgrade"
)

// Features are all that the relay can do beside its core. A build with the tag core has core.go instead.
var Features = []features.Feature{reference.Feature, catalogue.Feature, leaks.Feature, agents.Feature, apply.Feature,
	listen.Feature, plan.Feature, demo.Feature, doctor.Feature, reconcile.Feature, ledger.Feature, backup.Feature,
	upgrade.Feature, move.Feature, fixtures.Feature, issues.Feature, portal.Feature, imports.Feature}
