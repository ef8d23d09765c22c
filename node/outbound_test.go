package node

import (
	"syscall"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Connections to destinations use at most half of the files that the process may open.
func TestOutboundFiles(t *testing.T) {
	for _, c := range []struct{ files, sending, idle int }{
		{1, 1, 1}, {256, 96, 32}, {1024, 384, 128}, {20_000, 7500, 2500}, {524_288, 8192, 65_536},
	} {
		if sending, idle := outboundLimits(c.files, 8192); sending != c.sending || idle != c.idle {
			t.Errorf("%d files: %d requests and %d idle connections, want %d and %d", c.files, sending, idle, c.sending, c.idle)
		}
	}
}

// Package os raises the soft limit of open files to the hard one.
func TestOpenFilesAreRaised(t *testing.T) {
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	is.Equal(t, openFiles(), int(min(uint64(limit.Max), maxFiles)), "open files, the hard limit is %d", limit.Max)
}
