//go:build core

package dashboard

import "github.com/eventrelay/relay/dashboard/frame"

// leakAreas are none in a build without package leaks.
func leakAreas() []frame.Area { return nil }
