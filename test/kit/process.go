package kit

import (
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process runs an engine as its own process group.
type process struct {
	command     []string
	inNamespace func(func() error) error // runs a function in the process's network namespace; nil = the current one

	cmd   *exec.Cmd
	wg    sync.WaitGroup
	ended chan struct{} // closed when the process has ended; nil before the first start
	out   Buffer
}

func (p *process) start() error {
	p.cmd = exec.Command(p.command[0], p.command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	launch := p.cmd.Start
	if p.inNamespace != nil {
		launch = func() error { return p.inNamespace(p.cmd.Start) }
	}
	if err := launch(); err != nil {
		return err
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	p.wg.Go(func() {
		defer close(ended)
		_ = cmd.Wait() // the output says why it ended
	})
	return nil
}

func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, s) }

func (p *process) wait(limit time.Duration) (ended bool) {
	select {
	case <-p.ended:
		return true
	case <-time.After(limit):
		return false
	}
}

func (p *process) output() string { return p.out.String() }

func (p *process) remove() {
	if p.ended != nil && !p.wait(0) {
		_ = p.signal(syscall.SIGKILL) // fails if it has ended meanwhile
	}
	p.wg.Wait()
}
