package upgrade

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The check needs the old version to run. It says so for a directory that none has used, and for one whose process was
// killed, which leaves the socket of its store.
func TestCheckAsksForTheOldVersion(t *testing.T) {
	dir := must.Get(os.MkdirTemp("", "u"))(t) // short: the path of a socket has 108 characters at most
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	s := nodeconfig.Config{DataDir: dir, RetentionDays: 1}
	const advice = ": start the old version there, wait until it is ready, and check again"
	_, err := checkUpgrade(t.Context(), s)
	is.Failed(t, err, "no relay runs on "+dir+advice)
	must.Do(t, os.MkdirAll(filepath.Dir(s.StoreSocket()), 0o700))
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: s.StoreSocket(), Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	must.Do(t, l.Close())
	_, err = checkUpgrade(t.Context(), s)
	is.Failed(t, err, "no relay answers on "+dir+advice)
}
