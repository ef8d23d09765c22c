// Package overview has the start page: what needs a person, and the traffic of the last hour.
package overview

import (
	"embed"
	"github.com/eventrelay/relay/dashboard/frame"
)

// Area returns the pages of this package.
func Area() frame.Area {
	return frame.Area{
		Pages: files,
		Routes: []frame.Route{
			{"GET", "/app", frame.Reader, showStart},
		},
	}
}

//go:embed pages
var files embed.FS
