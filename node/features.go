//go:build !core

package node

import (
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/leaks"
)

// allFeatures is all that the relay can do beside its core. A build with the tag core has core.go instead.
var allFeatures = []features.Feature{leaks.Feature}
