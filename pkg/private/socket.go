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

// maxSocketPath is the longest socket path that every system accepts, in bytes: sun_path has 104 bytes on BSD and
// macOS and 108 on Linux, including the terminating zero.
const maxSocketPath = 103

// A Listener accepts connections from processes of this user and of root.
type Listener struct {
	*net.UnixListener
	path   string      // empty if inherited: the parent process removes the socket
	info   fs.FileInfo // of the socket file, so that Close does not remove another process's socket
	remove sync.Once
}

// Listen creates a unix socket with mode 0600. It replaces a socket at path that no process listens on, after waiting
// up to 5 s for one that is ending; it refuses to replace any other file. The socket is bound in a new directory of
// mode 0700 and then renamed to path, so that other users can never connect, whatever the umask is.
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
	l.SetUnlinkOnClose(false) // the socket is renamed below; Close removes it under its final name
	if err := errors.Join(os.Chmod(bound, 0o600), os.Rename(bound, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("rename socket to its path: %w", err), l.Close(), os.Remove(bound))
	}
	made, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("check socket: %w", err), l.Close())
	}
	return &Listener{UnixListener: l, path: path, info: made}, nil
}

// waitUntilUnused returns nil as soon as path is free or is a socket that no process listens on. A process that is
// being killed may still listen: waitUntilUnused waits 5 s for it to end.
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
			return fmt.Errorf("check socket path %s: %w", path, err)
		case info.Mode().Type() != fs.ModeSocket:
			return fmt.Errorf("%s is not a socket: remove it, or choose another path", path)
		case !isListening(path):
			return nil
		case time.Since(began) > moment:
			return fmt.Errorf("another process listens on socket %[2]s of user %[1]d: stop it, or choose another path",
				ownerOf(info), path)
		}
	}
}

// isListening reports whether a process listens on the socket at path. It is true as well if connecting fails for
// another reason than that nobody listens, such as missing permission.
func isListening(path string) bool {
	address, release, err := shortPath(path)
	if err != nil {
		return false
	}
	defer release()
	// Connecting to a unix socket does not block, so it needs no context.
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
	}
	conn.Close()
	return true
}

// Inherit returns a Listener on a listening socket that the parent process opened. It checks who connects, as one of
// Listen does; Close leaves the socket file to the parent.
func Inherit(l *net.UnixListener) *Listener {
	l.SetUnlinkOnClose(false)
	return &Listener{UnixListener: l}
}

// root is the superuser. It is not refused: it has full access to this process anyway.
const root = 0

// Accept returns the next connection from a process of this user or of root. It closes connections of other users.
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

// Close closes the listener and removes its socket file, unless another file has replaced it or it was inherited.
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

// Path returns the path that Listen was called with, empty for an inherited socket.
func (l *Listener) Path() string { return l.path }

// Dial connects to a unix socket. It returns an error that wraps [ErrOtherUser] if a process of another user, root
// included, listens there (Linux; other systems do not check).
func Dial(ctx context.Context, path string) (net.Conn, error) { return dial(ctx, path) }

// DialOwner is Dial, except that root also connects to a process of the user who owns the socket's directory, if no
// other user has permissions on that directory: then nobody else can have created the socket.
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

// ErrOtherUser is returned if the process at the other end of a socket belongs to another user.
var ErrOtherUser = errors.New("the process at the other end belongs to another user; run both as the same user")

// shortPath returns path, or on Linux a short name for it if it is longer than maxSocketPath: /proc/self/fd/N/BASE,
// through an open descriptor N of its directory. The name is valid until release is called.
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
