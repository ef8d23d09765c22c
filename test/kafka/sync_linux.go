package kafka

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// fdatasync writes a file's data and length to disk. Opening the path is enough: the kernel syncs the file, whichever
// descriptor it was written through.
func fdatasync(path string) error { return syncPath(path, "fdatasync", unix.Fdatasync) }

// fsyncDir writes a directory's entries to disk.
func fsyncDir(path string) error { return syncPath(path, "fsync", unix.Fsync) }

func syncPath(path, name string, call func(fd int) error) error {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if _, err := retry(func() (int, error) { return 0, call(fd) }); err != nil {
		return fmt.Errorf("%s %s: %w", name, path, err)
	}
	return nil
}

// retry repeats a call that a signal interrupted (EINTR).
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
