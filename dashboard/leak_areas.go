//go:build !core

package dashboard

import (
	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/dashboard/leaks"
)

func leakAreas() []frame.Area { return []frame.Area{leaks.Area()} }
