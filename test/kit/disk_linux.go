package kit

import (
	"syscall"
	"testing"
)

// SmallDisk mounts a file system in memory on a directory until the test ends. Options are those of tmpfs, such as
// size=64m.
func SmallDisk(t testing.TB, dir, options string) {
	t.Helper()
	if err := syscall.Mount("relay-test", dir, "tmpfs", 0, options); err != nil {
		SkipMissing(t, "cannot mount a small file system to fill: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}
