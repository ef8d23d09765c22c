// Package issues groups the failures of destinations by cause. An issue has a status, an assignee and a note.
package issues

import (
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/issues/count"
	"github.com/eventrelay/relay/features/issues/pages"
	"github.com/eventrelay/relay/features/issues/routes"
	"github.com/eventrelay/relay/usage/alert"
)

// Feature registers this package.
var Feature = features.Feature{Name: "issues", Pages: pages.Area, New: func(h *features.Host) features.Parts {
	h.CountFailures = func(partition int32) alert.FailureCounter {
		return count.New(h.Control, h.Log, h.Control.Now, partition)
	}
	return features.Parts{API: routes.Area}
}}
