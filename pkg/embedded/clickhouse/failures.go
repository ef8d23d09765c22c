package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

var (
	// errLostWrite means that files of the engine are not what it believes them to be.
	errLostWrite = errors.New("the engine could not write to its disk, which is full or faulty; " +
		"what it wrote since is not acknowledged")
	errLostRead = errors.New("the engine could not read from its disk, which may be faulty; " +
		"the statement may be done in part")
)

// failures is how many reads and writes of files have failed since the start.
//
// libchdb counts a write that fails and goes on as if it had succeeded, because chDB has taken ClickHouse's exception
// out (src/IO/WriteBufferFromFileDescriptor.cpp): it acknowledges inserts whose files are empty, and replaces parts by
// a merge that cannot be read. The parts that were merged are kept for eight minutes (old_parts_lifetime), and a start
// finds the broken part and reads them again. So nothing is lost if nothing is acknowledged after the failure and the
// process ends soon.
//
// A read that fails is the end of the file (src/IO/ReadBuffer.cpp). Statements that decode what they read notice that
// something is missing. BACKUP copies files as they are and does not.
type failures struct{ writes, reads int }

func (s *session) failures() (n failures, err error) {
	out, err := s.exec("SELECT sumIf(value, event = 'WriteBufferFromFileDescriptorWriteFailed'), "+
		"sumIf(value, event = 'ReadBufferFromFileDescriptorReadFailed') FROM system.events", "TabSeparated", nil)
	if err == nil {
		_, err = fmt.Sscan(string(out), &n.writes, &n.reads)
	}
	return n, err
}

// lost returns an error if a write has failed since the start, or more reads than the given number.
func (s *session) lost(reads int) error {
	n, err := s.failures()
	switch {
	case err != nil:
		return err
	case n.writes > 0:
		return errLostWrite
	case n.reads > reads:
		return errLostRead
	}
	return nil
}

// watchWrites returns errLostWrite when a write has failed, nil when ctx ends. Merges write without a statement.
func (e *engine) watchWrites(ctx context.Context) error {
	const interval = time.Second
	for wait.For(ctx, interval) == nil {
		s, err := e.lib.open(e.args)
		if err != nil {
			return err
		}
		err = s.lost(math.MaxInt)
		s.close()
		if err != nil {
			return err
		}
	}
	return nil
}
