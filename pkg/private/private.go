// Package private keeps directories, files and unix sockets to the user of the process.
//
// Paths in, opened and checked objects out. Every check is made on the open object (fstat), not on its name, so that
// nobody can swap it between the check and the use.
//
//   - Dir makes a directory with mode 0700, or takes one that exists and belongs to this user: TestEnsureDir.
//   - Lock keeps a second process out of a directory: TestLockDir.
//   - ReadFile reads a file that this user owns and nobody else can read: TestReadFile.
//   - Listen and Dial connect processes of one user only: the kernel says whose process is at the other end
//     (SO_PEERCRED, Linux): TestPeer. They take paths of any length, where a socket address has room for 108 bytes:
//     TestLongPath.
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

// Dir makes a directory that only this user can enter, or takes over one that exists. A directory of another user is
// refused. One that others can enter is closed to them if it is empty or holds the file mark, which shows that it is
// ours; any other directory is refused, for it may be one that the system or other programs need, such as /tmp.
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
		return fmt.Errorf("directory %s belongs to another user; choose another directory, or one inside it", path)
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
	const writableByOthers = 0o022
	if !ours && info.Mode().Perm()&writableByOthers != 0 {
		return fmt.Errorf("directory %s is for others too (mode %04o); choose a directory inside it, such as %s",
			path, info.Mode().Perm(), filepath.Join(path, "relay"))
	}
	if !ours {
		return fmt.Errorf("others can enter directory %s (mode %04o); if it is for the relay alone, run: chmod 700 %s",
			path, info.Mode().Perm(), path)
	}
	if err := d.Chmod(0o700); err != nil {
		return fmt.Errorf("close directory to others: %w", err)
	}
	return nil
}

// Lock keeps a second process out of a data directory until unlock is called, by a lock on a file in it.
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

// checkLink refuses a symbolic link that another user made, who could lead us from one directory of ours to another.
// The flag that it returns keeps the link from appearing only now.
func checkLink(path string) (flag int, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, fmt.Errorf("check directory: %w", err)
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return syscall.O_NOFOLLOW, nil
	}
	if owner := ownerOf(info); owner != os.Geteuid() && owner != 0 {
		return 0, fmt.Errorf("directory %s is a link that belongs to user %d; remove the link, or name the directory itself",
			path, owner)
	}
	return 0, nil
}

// mayRestrict says whether a directory may be closed to others: it is empty, or it holds the file mark and nobody else
// could have put that there.
func mayRestrict(d *os.File, mode fs.FileMode, mark string) (bool, error) {
	names, err := d.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	const writableByOthers = 0o022
	if mark == "" || len(names) == 0 || mode.Perm()&writableByOthers != 0 {
		return false, nil
	}
	_, err = os.Lstat(filepath.Join(d.Name(), mark))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ReadFile reads a secret. A file that others can read, or that belongs to another user, is refused: whoever could put
// it there knows the secret, or has chosen it.
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
		return nil, fmt.Errorf("others can read or change secret file %s (mode %04o); make a new secret, or run: "+
			"chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	return io.ReadAll(f)
}

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
