package schema

import (
	"errors"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// alreadyThere reports whether ClickHouse refused to make a table because there is one of its name (TABLE_ALREADY_EXISTS).
func alreadyThere(err error) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && ex.Code == 57
}
