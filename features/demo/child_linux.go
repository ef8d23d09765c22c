package demo

import "syscall"

// diesWithParent ends the relay with this program, however that ends.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
