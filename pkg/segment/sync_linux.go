package segment

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync writes a file's data and length to disk.
func fdatasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync "+f.Name(), err)
		}
	}
}
