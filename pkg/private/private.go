// Package private restricts directories, files and unix sockets to the user of the process.
//
//   - EnsureDir creates a directory with mode 0700, or restricts one that this user owns: TestEnsureDir.
//   - LockDir keeps a second process out of a directory: TestLockDir.
//   - ReadFile reads a file that this user owns and no other user has any permission on: TestReadFile.
//   - Listen and Dial connect processes of one user; a Listener also accepts root. On Linux the kernel names the user
//     of the other process (SO_PEERCRED): TestPeer. On other systems only the file modes protect a socket.
//     Paths may be longer than a socket address, which holds 108 bytes (Linux only): TestLongPath.
//
// EnsureDir and ReadFile check owner and mode of the opened file (fstat), so that nobody can replace it between the
// check and the use. Start reading at EnsureDir; sockets are in socket.go.
package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// othersMode are the permissions of everybody but the owner.
const othersMode = 0o077

// writableByOthers are the permission bits that let the group or other users write.
const writableByOthers = 0o022

// EnsureDir creates path, with its parents, as a directory of mode 0700, or checks one that exists. It refuses a
// directory of another user. An existing directory that other users have permissions on is restricted to mode 0700 if
// it is empty, or if it contains the file mark and others cannot write to it. Any other such directory is refused: the
// system or other programs may need it, such as /tmp.
func EnsureDir(path, mark string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	follow, err := checkLink(path)
	if err != nil {
		return err
	}
	d, err := os.OpenFile(path, os.O_RDONLY|follow, 0)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no permission to open directory %s, it may belong to another user; choose another directory", path)
	}
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return fmt.Errorf("check directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	if owner := ownerOf(info); owner != os.Geteuid() {
		return fmt.Errorf("directory %s belongs to user %d, this process runs as user %d; choose another directory, "+
			"or one inside it", path, owner, os.Geteuid())
	}
	if info.Mode().Perm()&othersMode == 0 {
		return nil
	}
	ours, err := mayRestrict(d, info.Mode(), mark)
	if err != nil {
		return fmt.Errorf("check directory: %w", err)
	}
	if !ours && info.Mode().Perm()&writableByOthers != 0 {
		return fmt.Errorf("other users can write to directory %s (mode %04o); choose a directory inside it, such as %s",
			path, info.Mode().Perm(), filepath.Join(path, "relay"))
	}
	if !ours {
		return fmt.Errorf("other users can enter directory %s (mode %04o); if only the relay uses it, run: chmod 700 %s",
			path, info.Mode().Perm(), path)
	}
	if err := d.Chmod(0o700); err != nil {
		return fmt.Errorf("restrict directory to its owner: %w", err)
	}
	return nil
}

// LockDir takes an exclusive lock (flock) on a file in dir, which it creates if needed, so that no second process uses
// the directory. It does not wait: it fails if another process has the lock. The lock ends with unlock or the process.
func LockDir(dir, file string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("data directory %s is in use by another relay process; stop it or choose another with "+
			"--data-dir", dir)
	}
	return func() { f.Close() }, nil
}

// checkLink refuses a symbolic link that belongs to a user other than this one and root: that user could redirect the
// process to another directory. If path is no link, flag is O_NOFOLLOW, so that opening path fails if it has become
// one.
func checkLink(path string) (flag int, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, fmt.Errorf("check directory: %w", err)
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return syscall.O_NOFOLLOW, nil
	}
	if owner := ownerOf(info); owner != os.Geteuid() && owner != 0 {
		return 0, fmt.Errorf("directory %s is a symbolic link that belongs to user %d; remove it, or give the path of the "+
			"directory itself",
			path, owner)
	}
	return 0, nil
}

// mayRestrict reports whether EnsureDir may take away other users' permissions on a directory: it is empty, or it
// contains the file mark and no other user can write to it, so that the mark is this user's.
func mayRestrict(d *os.File, mode fs.FileMode, mark string) (bool, error) {
	names, err := d.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if mark == "" || len(names) == 0 || mode.Perm()&writableByOthers != 0 {
		return false, nil
	}
	_, err = os.Lstat(filepath.Join(d.Name(), mark))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ReadFile reads a file with a secret. It refuses a file that belongs to another user or on which others have any
// permission (mode & 077): they may know the secret or have chosen it. It also refuses what is not a regular file.
func ReadFile(path string) ([]byte, error) {
	// Without O_NONBLOCK opening a FIFO would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch owner := ownerOf(info); {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case owner != os.Geteuid():
		return nil, fmt.Errorf("secret file %s belongs to user %d, this process runs as user %d", path, owner, os.Geteuid())
	case info.Mode().Perm()&othersMode != 0:
		return nil, fmt.Errorf("other users have access to secret file %s (mode %04o); create a new secret, or run: "+
			"chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	return io.ReadAll(f)
}

// ownerOf returns the user id of a file's owner, -1 if the system has none.
func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
