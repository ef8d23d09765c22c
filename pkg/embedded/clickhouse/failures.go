package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

var (
	// errWriteFailed means that a write to a file failed, so that files differ from what the engine believes.
	errWriteFailed = errors.New("the engine could not write to its disk, which is full or faulty; " +
		"writes since then are not acknowledged")
	errReadFailed = errors.New("the engine could not read from its disk, which may be faulty; " +
		"the statement may be done in part")
)

// failures is how many reads and writes of files have failed since the start.
//
// libchdb counts a write that fails and goes on as if it had succeeded, because chDB has removed the exception that
// ClickHouse throws (src/IO/WriteBufferFromFileDescriptor.cpp): it acknowledges inserts whose files are empty, and
// replaces parts by a merge that cannot be read. The parts that were merged are kept for eight minutes
// (old_parts_lifetime), and a start finds the broken part and reads them again. So nothing is lost if nothing is
// acknowledged after the failure and the process ends soon. For definitions see definitions.go.
//
// A read that fails is the end of the file (src/IO/ReadBuffer.cpp). Statements that decode what they read notice that
// something is missing. BACKUP copies files as they are and does not.
type failures struct{ writes, reads int }

// failures asks in a session of its own: the settings of a client could change the answer.
func (e *engine) failures() (n failures, err error) {
	s, err := e.lib.open(e.args)
	if err != nil {
		return n, err
	}
	defer s.close()
	out, err := s.exec("SELECT sumIf(value, event = 'WriteBufferFromFileDescriptorWriteFailed'), "+
		"sumIf(value, event = 'ReadBufferFromFileDescriptorReadFailed') FROM system.events", "TabSeparated", nil)
	if err == nil {
		_, err = fmt.Sscan(string(out), &n.writes, &n.reads)
	}
	return n, err
}

// checkFailures returns an error if a write has failed since the start, or more reads than the given number.
func (e *engine) checkFailures(reads int) error {
	n, err := e.failures()
	switch {
	case err != nil:
		return err
	case n.writes > e.failedAtStart:
		return errWriteFailed
	case n.reads > reads:
		return errReadFailed
	}
	return nil
}

// countStart notes that the start could not write db/status, which only says which process has the directory. On a full
// disk the engine would otherwise end again and again.
func (e *engine) countStart(data string) error {
	status, err := os.Stat(filepath.Join(data, "db", "status"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && status.Size() == 0 {
		e.failedAtStart = 1
	}
	return err
}

// watchWrites returns errWriteFailed when a write has failed, nil when ctx ends. It covers merges, which run without a
// statement.
func (e *engine) watchWrites(ctx context.Context) error {
	const interval, patience = time.Second, 30
	for failed := 0; wait.For(ctx, interval) == nil; {
		err := e.checkFailures(math.MaxInt)
		if err == nil {
			failed = 0
		} else if failed++; errors.Is(err, errWriteFailed) || failed == patience {
			return err
		}
	}
	return nil
}
