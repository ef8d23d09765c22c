package kit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// enter calls f with the namespace as the network: sockets it opens and processes it starts are in there.
func (h *Host) enter(f func() error) error {
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = h.enterThread(f) })
	wg.Wait()
	return err
}

// enterThread moves its thread into the namespace and back. If it cannot move back the thread ends with
// its goroutine, for it stays locked.
func (h *Host) enterThread(f func() error) (err error) {
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("remember the network namespace: %w", err)
	}
	defer here.Close()
	there, err := os.Open(filepath.Join(netnsDir, h.name))
	if err != nil {
		return fmt.Errorf("find the namespace: %w", err)
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", h.name, err)
	}
	defer func() {
		if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
			err = errors.Join(err, fmt.Errorf("leave namespace %s: %w", h.name, back))
			return
		}
		runtime.UnlockOSThread()
	}()
	return f()
}
