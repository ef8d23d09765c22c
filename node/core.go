//go:build core

package node

import "github.com/eventrelay/relay/features"

// This file takes the place of features.go in a build of the core alone.

var Features []features.Feature
