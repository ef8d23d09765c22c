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

// inNamespace calls f inside the namespace: sockets that f opens and processes that it starts belong to it.
func (h *Host) inNamespace(f func() error) error {
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = h.inNamespaceOnThread(f) })
	wg.Wait()
	return err
}

// inNamespaceOnThread moves the current thread into the namespace and back. If it cannot move back, the thread stays
// locked and ends with its goroutine.
func (h *Host) inNamespaceOnThread(f func() error) (err error) {
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("open the current network namespace: %w", err)
	}
	defer here.Close()
	there, err := os.Open(filepath.Join(netnsDir, h.name))
	if err != nil {
		return fmt.Errorf("open the namespace: %w", err)
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
