package clickhouse

import (
	"fmt"
	"syscall"
)

// processAttributes make the engine die with the thread that started it, and
// keep it out of the terminal's process group: an interrupt typed there must
// reach the relay alone, which stops the engine after it has written its rows.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onFirstThread reports whether the calling thread is that of main.
func onFirstThread() bool { return syscall.Gettid() == syscall.Getpid() }

// niceness is by how much the engine is nicer than the relay: with full cores its
// inserts and merges give way to what accepts and delivers.
const niceness = 5

// yield makes the thread that calls nicer, and with it every process that it
// starts from then on (setpriority(2): a niceness is a thread's own on Linux).
func lowerPriority() error {
	const thisThread, nicest = 0, 19
	now, err := syscall.Getpriority(syscall.PRIO_PROCESS, thisThread) // the call gives 20 - niceness
	if err != nil {
		return fmt.Errorf("read the priority: %w", err)
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, thisThread, min(20-now+niceness, nicest)); err != nil {
		return fmt.Errorf("set the priority: %w", err)
	}
	return nil
}
