//go:build !linux

package clickhouse

import "syscall"

// processAttributes keeps the engine out of the terminal's process group. Only Linux can kill it when its parent ends.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// lowerPriority does nothing: on other systems a priority belongs to the whole process.
func lowerPriority() error { return nil }

// onFirstThread matters only with lowerPriority and the parent-death signal of Linux.
func onFirstThread() bool { return false }
