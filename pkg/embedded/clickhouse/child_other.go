//go:build !linux

package clickhouse

import "syscall"

// processAttributes keep the engine out of the terminal's process group. That it
// dies with its parent is known to Linux only.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// lowerPriority does nothing: elsewhere a priority is the whole process's.
func lowerPriority() error { return nil }

// onFirstThread matters where lowerPriority does.
func onFirstThread() bool { return false }
