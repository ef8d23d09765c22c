package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/eventrelay/relay/doctor"
	"github.com/eventrelay/relay/node"
)

// Doctor prints the report of the running process. It returns an error if a check fails.
func Doctor(ctx context.Context, c *Client) error {
	var r doctor.Report
	if err := c.call(ctx, http.MethodGet, "/doctor", nil, &r, func() { r.Print(c.out) }); err != nil {
		return err
	}
	return r.Err()
}

// runDoctor asks the running process. When there is none and the settings name Kafka, it examines the engines itself.
func runDoctor(ctx context.Context, s Settings, env Env, asJSON bool) error {
	err := Doctor(ctx, NewClient(s.DataDir, asJSON, env))
	if !errors.Is(err, ErrNoProcess) || len(s.KafkaBrokers) == 0 {
		return err
	}
	if !asJSON {
		fmt.Fprintf(env.Stdout, "%v; examining the engines directly\n\n", ErrNoProcess)
	}
	report, err := node.ExamineEngines(ctx, s.Config)
	if err != nil {
		return err
	}
	return errors.Join(report.Write(env.Stdout, asJSON), report.Err())
}
