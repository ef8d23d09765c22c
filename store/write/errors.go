package write

import (
	"errors"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/store/internal/ch"
)

// errRefused marks an insert that was refused because of what is in it, before it reached ClickHouse.
var errRefused = errors.New("rows are refused")

// refused reports whether err speaks about the rows of an insert. Anything that is not ClickHouse's own
// answer (network, timeout, a proxy's page) does not, and neither do answers about the state of the
// server, its load or its schema: those rows go in later as they are.
func refused(err error) bool {
	if errors.Is(err, errRefused) {
		return true
	}
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && !ch.IsServerError(ex.Code)
}
