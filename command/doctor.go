package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/eventrelay/relay/doctor"
	"github.com/eventrelay/relay/node"
)

// Doctor asks the running process how it is.
func Doctor(ctx context.Context, c *Client) error {
	var r doctor.Report
	if err := c.call(ctx, http.MethodGet, "/doctor", nil, &r, func() { r.Print(c.out) }); err != nil {
		return err
	}
	return r.Err()
}

// runDoctor asks the running process, or the engines themselves when there is none and the settings name them.
func runDoctor(ctx context.Context, s Settings, env Env, asJSON bool) error {
	err := Doctor(ctx, NewClient(s.DataDir, asJSON, env))
	if !errors.Is(err, ErrNoProcess) || len(s.KafkaBrokers) == 0 {
		return err
	}
	if !asJSON {
		fmt.Fprintf(env.Stdout, "%v; asking the engines themselves\n\n", ErrNoProcess)
	}
	report, err := node.ExamineEngines(ctx, s.Config)
	if err != nil {
		return err
	}
	return errors.Join(report.Write(env.Stdout, asJSON), report.Err())
}
