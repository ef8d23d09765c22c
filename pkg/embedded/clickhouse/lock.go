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
)

// ErrHeld means that another process keeps the data directory open.
var ErrHeld = errors.New("data directory is held by another process")

// acquire takes the lock file, which the kernel gives back when the process is
// gone, however it went. A predecessor that is just dying is waited for.
func acquire(ctx context.Context, path string, wait time.Duration) (*os.File, error) {
	const pause = 20 * time.Millisecond
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	retry := time.NewTicker(pause)
	defer retry.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, sign(file)
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), file.Close())
		}
		select {
		case <-retry.C:
		case <-deadline.C:
			return nil, errors.Join(fmt.Errorf("%w: %s, %s", ErrHeld, path, holder(file)), file.Close())
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), file.Close())
		}
	}
}

// sign writes the process id into the lock file, for the message of who finds it
// held.
func sign(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("sign lock of data directory: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("sign lock of data directory: %w", err)
	}
	return nil
}

func holder(file *os.File) string {
	const longestID = 20
	text, err := io.ReadAll(io.NewSectionReader(file, 0, longestID))
	if err != nil || len(text) == 0 {
		return "holder unknown"
	}
	return "process " + strings.TrimSpace(string(text))
}
