package write

import (
	"errors"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/store/internal/ch"
)

// errRowsRejected marks an insert whose rows could not be encoded, before it reached ClickHouse.
var errRowsRejected = errors.New("rows cannot be encoded")

// rowsRejected reports whether an insert failed because of its rows. Any other error is not about them: no answer of
// ClickHouse (network, timeout, a proxy's page), or one about the server's state, load or schema. Those rows are
// inserted later as they are.
func rowsRejected(err error) bool {
	if errors.Is(err, errRowsRejected) {
		return true
	}
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && !ch.IsServerError(ex.Code)
}
