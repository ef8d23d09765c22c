package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// maxSocketPath is the longest path that every system takes as the address of a socket, in bytes: sun_path has 104 on
// BSD and macOS, 108 on Linux, with the zero at the end.
const maxSocketPath = 103

// A Listener accepts connections from processes of this user.
type Listener struct {
	*net.UnixListener
	path   string // "" when it was inherited: the parent process removes it
	info   fs.FileInfo
	remove sync.Once
}

// Listen makes a unix socket with mode 0600, in place of one that nobody listens on any more. Anything else at the path
// is left alone and refused. The socket is bound in a new directory of mode 0700 and
// then moved into place, so that at no time others can connect, whatever the umask of the process is.
func Listen(path string) (*Listener, error) {
	if err := waitUntilUnused(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".socket-*")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no directory for socket %s: create it with mkdir -p -m 700 %s", path, filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("make directory for socket: %w", err)
	}
	defer os.Remove(dir)
	bound := filepath.Join(dir, "s")
	address, release, err := shortPath(bound)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // it has another name by then
	if err := errors.Join(os.Chmod(bound, 0o600), os.Rename(bound, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("put socket into place: %w", err), l.Close(), os.Remove(bound))
	}
	made, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look at socket: %w", err), l.Close())
	}
	return &Listener{UnixListener: l, path: path, info: made}, nil
}

// waitUntilUnused returns when nobody listens at path. A process that is being killed may still do so: it gets a
// moment.
func waitUntilUnused(path string) error {
	const moment, pause = 5 * time.Second, 50 * time.Millisecond
	retry := time.NewTicker(pause)
	defer retry.Stop()
	for began := time.Now(); ; <-retry.C {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("look at %s: %w", path, err)
		case info.Mode().Type() != fs.ModeSocket:
			return fmt.Errorf("%s is no socket: remove it, or choose another path", path)
		case !isListening(path):
			return nil
		case time.Since(began) > moment:
			return fmt.Errorf("a process of user %d listens on %s already: stop it, or choose another path", ownerOf(info), path)
		}
	}
}

// answers reports whether a process listens on the socket at path.
func isListening(path string) bool {
	address, release, err := shortPath(path)
	if err != nil {
		return false
	}
	defer release()
	// Connecting to a unix socket of this machine is at once: there is nothing for a context to end.
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
	}
	conn.Close()
	return true
}

// Inherit takes over a listening unix socket that the parent process left open, with the same check of who connects.
func Inherit(l *net.UnixListener) *Listener {
	l.SetUnlinkOnClose(false)
	return &Listener{UnixListener: l}
}

// root is the user that may do everything to this process anyway.
const root = 0

// Accept returns the next connection from a process of this user or of root; others are closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if checkPeer(conn, root) == nil {
			return conn, nil
		}
		conn.Close()
	}
}

// Close closes the socket and removes it, unless another has taken its place.
func (l *Listener) Close() (err error) {
	l.remove.Do(func() {
		if l.path == "" {
			return
		}
		if now, err := os.Lstat(l.path); err != nil || !os.SameFile(now, l.info) {
			return
		}
		if err = os.Remove(l.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	})
	return errors.Join(err, l.UnixListener.Close())
}

// Path is the name under which the socket is found.
func (l *Listener) Path() string { return l.path }

// Dial connects to a unix socket, if a process of this user listens on it.
func Dial(ctx context.Context, path string) (net.Conn, error) { return dial(ctx, path) }

// DialOwner is Dial, but root also connects to a process of the user whose own the socket's directory is: nobody else
// could have put a socket there.
func DialOwner(ctx context.Context, path string) (net.Conn, error) {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil || os.Geteuid() != root || info.Mode().Perm()&othersMode != 0 {
		return dial(ctx, path)
	}
	return dial(ctx, path, ownerOf(info))
}

func dial(ctx context.Context, path string, owners ...int) (net.Conn, error) {
	address, release, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn.(*net.UnixConn), owners...); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), conn.Close())
	}
	return conn, nil
}

// ErrOtherUser means that the process at the other end of a socket is another user's.
var ErrOtherUser = errors.New("the process at the other end belongs to another user; run both as the same user")

// shortPath is a name of at most maxSocketPath bytes for the file at path. A longer path is reached through an open
// file descriptor of its directory, until release; only Linux can do that.
func shortPath(path string) (short string, release func(), err error) {
	if len(path) <= maxSocketPath || runtime.GOOS != "linux" {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}
