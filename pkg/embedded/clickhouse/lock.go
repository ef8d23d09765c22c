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

// ErrLocked means that another process keeps the data directory open.
var ErrLocked = errors.New("data directory is held by another process")

// acquire takes the lock file, which the kernel gives back when the process is
// gone, however it went. A predecessor that is just dying is waited for.
func acquireLock(ctx context.Context, path string, patience time.Duration) (*os.File, error) {
	const pause = 20 * time.Millisecond
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
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

// sign writes the process id into the lock file, for the message of who finds it
// held.
func writeOwner(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("sign lock of data directory: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("sign lock of data directory: %w", err)
	}
	return nil
}

func readOwner(file *os.File) string {
	const longestID = 20
	text, err := io.ReadAll(io.NewSectionReader(file, 0, longestID))
	if err != nil || len(text) == 0 {
		return "holder unknown"
	}
	return "process " + strings.TrimSpace(string(text))
}
