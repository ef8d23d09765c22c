package clickhouse

import "syscall"

// processAttributes make the engine die with the thread that started it, and
// keep it out of the terminal's process group: an interrupt typed there must
// reach the relay alone, which stops the engine after it has written its rows.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
