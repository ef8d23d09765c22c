package clickhouse

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

// errLostWrite means that files of the engine are not what it believes them to be.
var errLostWrite = errors.New("the engine could not write to its disk, which is full or faulty; " +
	"what it wrote since is not acknowledged")

// lostWrite returns errLostWrite if a write to a file has failed since the start. libchdb counts such a write and goes
// on as if it had succeeded, because chDB has taken ClickHouse's exception out
// (src/IO/WriteBufferFromFileDescriptor.cpp): it acknowledges inserts whose files are empty, and replaces parts by a
// merge that cannot be read. The parts that were merged are kept for eight minutes (old_parts_lifetime), and a start
// finds the broken part and reads them again. So nothing is lost if nothing is acknowledged after the failure and the
// process ends soon.
func (s *session) lostWrite() error {
	out, err := s.exec("SELECT sum(value) FROM system.events WHERE event = 'WriteBufferFromFileDescriptorWriteFailed'",
		"TabSeparated", nil)
	if err == nil && strings.TrimSpace(string(out)) != "0" {
		err = errLostWrite
	}
	return err
}

// watchWrites returns errLostWrite when a write has failed, nil when ctx ends. Merges write without a statement.
func (e *engine) watchWrites(ctx context.Context) error {
	const interval = time.Second
	for wait.For(ctx, interval) == nil {
		s, err := e.lib.open(e.args)
		if err != nil {
			return err
		}
		err = s.lostWrite()
		s.close()
		if err != nil {
			return err
		}
	}
	return nil
}
