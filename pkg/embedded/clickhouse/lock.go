package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/pkg/wait"
)

// ErrLocked means that another process has locked the data directory.
var ErrLocked = errors.New("data directory is locked by another process")

// acquireLock locks the lock file and waits up to maxWait for a predecessor that is stopping. The kernel releases the
// lock when the process ends, whatever the reason.
func acquireLock(ctx context.Context, path string, maxWait time.Duration) (*os.File, error) {
	const pause = 20 * time.Millisecond
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, writeOwner(file)
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), file.Close())
		}
		switch {
		case wait.For(limited, pause) == nil:
		case ctx.Err() == nil:
			return nil, errors.Join(fmt.Errorf("%w: %s, %s", ErrLocked, path, readOwner(file)), file.Close())
		default:
			return nil, errors.Join(context.Cause(ctx), file.Close())
		}
	}
}

// writeOwner writes the process id into the lock file, for the error message of another process that finds it locked.
func writeOwner(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("write process id to lock of data directory: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("write process id to lock of data directory: %w", err)
	}
	return nil
}

func readOwner(file *os.File) string {
	const maxIDLength = 20
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxIDLength))
	if err != nil || len(text) == 0 {
		return "process unknown"
	}
	return "process " + strings.TrimSpace(string(text))
}
