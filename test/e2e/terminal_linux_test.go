package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A command in a terminal asks it nothing, and does not wait for an answer.
func TestCommandsDoNotAskTheTerminal(t *testing.T) {
	t.Parallel()
	terminal := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	defer terminal.Close()
	must.Do(t, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	n := must.Get(unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN))(t)
	side := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	cmd := exec.Command(os.Args[0], "version")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "CI=", "COLORTERM=truecolor")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	began := time.Now()
	must.Do(t, cmd.Start())
	must.Do(t, side.Close())
	printed, _ := io.ReadAll(terminal) // ends with EIO
	must.Do(t, cmd.Wait(), "printed %q", printed)
	if took := time.Since(began); took > busy*2*time.Second {
		t.Errorf("took %v", took)
	}
	is.Equal(t, bytes.ContainsRune(printed, 0x1b), false, "escapes in %q", printed)
}
