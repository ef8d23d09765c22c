//go:build !linux

package demo

import "syscall"

// diesWithParent keeps the signals of the terminal from the relay: this program ends it.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
