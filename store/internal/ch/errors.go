package ch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/eventrelay/relay/pkg/event"
)

// IsServerError reports whether an error code of ClickHouse (src/Common/ErrorCodes.cpp) is about the server and not
// about the inserted rows. A code that is missing here costs a bisection and sends rows to the dead letter topic, so
// the list is wide.
func IsServerError(code int32) bool {
	return slices.Contains([]int32{
		3, 32, 33, 95, 96, 99, 101, 102, 108, // broken connection, unreadable packets
		198, 209, 210, 279, 425, // DNS, network, system calls
		74, 75, 76, 77, 87, 88, 243, // files, not enough space
		// Table, column, function or setting missing: schema and program disagree.
		8, 10, 16, 20, 46, 47, 60, 62, 81, 115, 218, 733,
		// Time, memory, quota, load, too many parts, killed.
		159, 160, 173, 201, 202, 203, 241, 252, 394, 439, 473, 735, 745, 746,
		164, 242, 236, 341, 722, // read-only, shutting down, still loading
		225, 285, 286, 319, 999, // Keeper, quorum, unknown status of an insert
		192, 193, 194, 195, 452, 497, 516, // users, rights and their constraints
		36, 49, 50, 53, 246, 290, 307, 396, 499, 571, // types, settings and storage that do not fit the program
		1000, 1001, 1002, // internal errors of the server
	}, code)
}

// ClassifyError marks err as event.ErrUnavailable, unless ClickHouse says that the statement is wrong. If the caller
// has cancelled ctx, it joins context.Canceled instead.
func ClassifyError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errors.Join(context.Canceled, err)
	}
	var ex *clickhouse.Exception
	if errors.As(err, &ex) && !IsServerError(ex.Code) {
		return err
	}
	return fmt.Errorf("%w: %w", event.ErrUnavailable, err)
}

// RequirePositive returns an error unless v is positive.
func RequirePositive[T int | time.Duration](name string, v T) error {
	if v > 0 {
		return nil
	}
	return fmt.Errorf("store: %s must be positive, not %v", name, v)
}
