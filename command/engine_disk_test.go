package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// A failed sync ends the process at once, and the cause is logged. An ordinary stop does not.
func TestDiskFailureEndsTheProcess(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, context.Canceled, fmt.Errorf("%w: input/output error", stream.ErrLogFailed)} {
		var out bytes.Buffer
		code := -1
		run := exitOnDiskFailure(func(context.Context) error { return err }, slog.New(slog.NewTextHandler(&out, nil)),
			func(c int) { code = c })
		is.ErrorIs(t, run(t.Context()), err)
		if failed := errors.Is(err, stream.ErrLogFailed); (code == cli.ExitRefused) != failed {
			t.Errorf("after %v the process exits with %d", err, code)
		} else if failed {
			is.Has(t, out.String(), "input/output error")
		}
	}
}
