package clickhouse

import (
	"fmt"
	"syscall"
)

// processAttributes makes the kernel kill the engine when the thread that started it ends, and keeps the engine out of
// the terminal's process group: an interrupt typed there must reach only the relay, which stops the engine after it has
// inserted its rows.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onFirstThread reports whether the calling thread is the main thread of the process.
func onFirstThread() bool { return syscall.Gettid() == syscall.Getpid() }

// niceness is added to the nice value of the engine: when the cores are busy, its inserts and merges give way to
// accepting and delivering events.
const niceness = 5

// lowerPriority adds niceness to the calling thread, and with it to every process that it starts from then on
// (setpriority(2): on Linux each thread has its own nice value).
func lowerPriority() error {
	const thisThread, nicest = 0, 19
	now, err := syscall.Getpriority(syscall.PRIO_PROCESS, thisThread) // the system call returns 20 - nice
	if err != nil {
		return fmt.Errorf("read the priority: %w", err)
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, thisThread, min(20-now+niceness, nicest)); err != nil {
		return fmt.Errorf("set the priority: %w", err)
	}
	return nil
}
