package private_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func makeDir(t *testing.T, mode os.FileMode, files ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	must.Do(t, os.Mkdir(dir, 0o700))
	for _, name := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must.Do(t, os.Chmod(dir, mode))
	return dir
}

func TestEnsureDir(t *testing.T) {
	for name, c := range map[string]struct {
		dir    string
		refuse string
	}{
		"new":                    {dir: filepath.Join(t.TempDir(), "a", "b")},
		"private already":        {dir: makeDir(t, 0o700, "other")},
		"empty":                  {dir: makeDir(t, 0o755)},
		"open, with the mark":    {dir: makeDir(t, 0o755, "mark", "other")},
		"open, without the mark": {dir: makeDir(t, 0o755, "other"), refuse: "chmod 700"},
		"others can write there": {dir: makeDir(t, 0o777|os.ModeSticky, "mark"), refuse: "inside it, such as"},
	} {
		err := private.EnsureDir(c.dir, "mark")
		if c.refuse != "" {
			if err == nil || !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%s: %v, want a refusal with %q", name, err, c.refuse)
			}
			continue
		}
		info, statErr := os.Stat(c.dir)
		if err != nil || statErr != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v, mode %v", name, err, statErr, info.Mode())
		}
	}
	asRoot(t)
	foreign := makeDir(t, 0o700)
	must.Do(t, os.Chown(foreign, nobody, nobody))
	is.Failed(t, private.EnsureDir(foreign, "mark"), "belongs to user 65534", "directory of another user")
}

// LockDir lets one holder lock a directory at a time; after unlock the next one can.
func TestLockDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := private.LockDir(dir, "lock")
	must.Do(t, err)
	if _, err := private.LockDir(dir, "lock"); err == nil ||
		!strings.Contains(err.Error(), "in use by another relay process") {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	if unlock, err = private.LockDir(dir, "lock"); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(path, []byte("s"), 0o600))
	if got, err := private.ReadFile(path); err != nil || string(got) != "s" {
		t.Fatal(string(got), err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		must.Do(t, os.Chmod(path, mode))
		if _, err := private.ReadFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if _, err := private.ReadFile(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	asRoot(t)
	must.Do(t, errors.Join(os.Chmod(path, 0o600), os.Chown(path, nobody, nobody)))
	if _, err := private.ReadFile(path); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("file of another user: %v", err)
	}
}

// nobody is the id of a user and group that no test runs as.
const nobody = 65534

// asRoot skips the rest of the test unless it runs as root, which can create files and processes of other users.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("not run as root: skips the checks with a process or file of another user")
		t.SkipNow()
	}
}

// serve answers every connection with a greeting until the test ends.
func serve(t *testing.T, l net.Listener) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
			conn.Close()
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		wg.Wait()
	})
}

// greeting dials path and returns what the server there writes.
func greeting(t *testing.T, path string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := private.Dial(ctx, path)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	text, err := io.ReadAll(conn)
	return string(text), err
}

// abandon creates a socket at path that nobody listens on.
func abandon(t *testing.T, path string) {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	must.Do(t, l.Close())
}

// Listen does not replace a regular file, and Close does not remove a socket that has replaced its own.
func TestListenReplacesOnlyUnusedSockets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	must.Do(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err := private.Listen(path); err == nil || !strings.Contains(err.Error(), "is not a socket: remove it") {
		t.Errorf("Listen where a file exists: %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if _, err := private.Listen(filepath.Join(dir, "none", "s")); err == nil ||
		!strings.Contains(err.Error(), "mkdir -p -m 700") {
		t.Errorf("without a directory: %v", err)
	}
	must.Do(t, os.Remove(path))
	l, err := private.Listen(path)
	if err == nil {
		err = os.Remove(path)
	}
	must.Do(t, err)
	abandon(t, path)
	is.OK(t, l.Close())
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("Close removed another process's socket: %v", err)
	}
}

// Listen waits for a process that listens at the path to end, and then replaces its socket.
func TestListenWaitsForDyingProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	first := must.Get(private.Listen(path))(t)
	taken := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		second, err := private.Listen(path)
		if err == nil {
			err = second.Close()
		}
		taken <- err
	})
	conn := must.Get(first.Accept())(t)
	conn.Close()
	is.OK(t, first.Close())
	is.OK(t, <-taken)
	wg.Wait()
}

func TestLinkOfOtherUserIsRefused(t *testing.T) {
	asRoot(t)
	ours := makeDir(t, 0o700)
	link := ours + ".link"
	is.OK(t, errors.Join(os.Symlink(ours, link), private.EnsureDir(link, "")), "our own link")
	must.Do(t, os.Lchown(link, nobody, nobody))
	is.Failed(t, private.EnsureDir(link, ""), "a symbolic link that belongs to user 65534; remove",
		"the link of another user")
}

// Listen replaces an unused socket, creates its own with mode 0600 whatever the umask is, and Close removes it.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	abandon(t, path)
	old := syscall.Umask(0)
	l, err := private.Listen(path)
	syscall.Umask(old)
	must.Do(t, err)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	serve(t, l)
	if got, err := greeting(t, path); got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	is.OK(t, l.Close())
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) > 0 {
		t.Errorf("%v, left %v", err, left)
	}
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 150))
	must.Do(t, private.EnsureDir(dir, ""))
	path := filepath.Join(dir, "s.sock")
	l := must.Get(private.Listen(path))(t)
	serve(t, l)
	if got, err := greeting(t, path); got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestMain also runs as the dialling or listening process of another user that TestPeer starts.
func TestMain(m *testing.M) {
	if path := os.Getenv("PRIVATE_TEST_DIAL"); path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			os.Exit(3)
		}
		text, _ := io.ReadAll(conn)
		_, _ = os.Stdout.Write(text)
		os.Exit(0)
	}
	if path := os.Getenv("PRIVATE_TEST_LISTEN"); path != "" {
		l, err := net.Listen("unix", path)
		if err != nil {
			os.Exit(3)
		}
		_, _ = os.Stdout.WriteString("listening\n")
		if conn, err := l.Accept(); err == nil {
			_, _ = io.WriteString(conn, "hello")
			conn.Close()
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Neither Accept nor Dial connects to a process of another user, even if the modes of directory and socket allow it.
func TestPeer(t *testing.T) {
	asRoot(t)
	// Not in $TMPDIR: it may be a directory that the other user cannot enter.
	dir := must.Get(os.MkdirTemp("/tmp", "peer"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "test") // a copy: os.Args[0] is in a directory that others cannot enter
	text, err := os.ReadFile(os.Args[0])
	must.Do(t, errors.Join(err, os.Chmod(dir, 0o777), os.WriteFile(binary, text, 0o755)))
	other := func(env string) *exec.Cmd {
		cmd := exec.Command(binary)
		cmd.Env = []string{env}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd
	}

	path := filepath.Join(dir, "ours.sock")
	l, err := private.Listen(path)
	if err == nil {
		err = os.Chmod(path, 0o777)
	}
	must.Do(t, err)
	serve(t, l)
	if out, err := other("PRIVATE_TEST_DIAL=" + path).Output(); err != nil || len(out) > 0 {
		t.Errorf("another user connected: %q, %v", out, err)
	}

	theirs := filepath.Join(dir, "theirs.sock")
	listening := func() *exec.Cmd {
		cmd := other("PRIVATE_TEST_LISTEN=" + theirs)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 32))
		}
		must.Do(t, err)
		return cmd
	}
	cmd := listening()
	// Everybody can write to the directory, so its owner proves nothing.
	if conn, err := private.DialOwner(t.Context(), theirs); !errors.Is(err, private.ErrOtherUser) {
		t.Errorf("spoke to another user's process: %v, %v", conn, err)
	}
	is.OK(t, cmd.Wait())
	must.Do(t, os.Remove(theirs))
	cmd = listening()
	if got, err := greeting(t, theirs); !errors.Is(err, private.ErrOtherUser) {
		t.Errorf("spoke to another user's process: %q, %v", got, err)
	}
	is.OK(t, cmd.Wait())
	must.Do(t, errors.Join(os.Remove(theirs), os.Chown(dir, nobody, nobody)))
	cmd = listening()
	must.Do(t, os.Chmod(dir, 0o700))
	conn, err := private.DialOwner(t.Context(), theirs)
	must.Do(t, err, "root cannot dial a process in a directory that only its user can enter")
	conn.Close()
	is.OK(t, cmd.Wait())
}
