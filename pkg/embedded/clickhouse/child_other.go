//go:build !linux

package clickhouse

import (
	"errors"
	"syscall"
)

// processAttributes keeps the engine out of the terminal's process group. Only Linux can kill it when its parent ends.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// lowerPriority fails, which the caller logs: on other systems a priority belongs to the whole process.
func lowerPriority() error { return errors.New("only threads of Linux have a priority of their own") }

// onFirstThread matters only with lowerPriority and the parent-death signal of Linux.
func onFirstThread() bool { return false }
