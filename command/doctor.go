package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/node/doctor"
)

// askDoctor prints the report of the running process. It returns an error if a check fails.
func askDoctor(ctx context.Context, c *client) error {
	var r doctor.Report
	if err := c.call(ctx, http.MethodGet, "/doctor", nil, &r, func() { r.Print(c.out) }); err != nil {
		return err
	}
	return r.Err()
}

// runDoctor asks the running process. When there is none and the settings name Kafka, it examines the engines itself.
func runDoctor(ctx context.Context, s settings, c call, asJSON bool) error {
	err := askDoctor(ctx, newClient(s.DataDir, asJSON, c))
	if !errors.Is(err, errNoProcess) || len(s.KafkaBrokers) == 0 {
		return err
	}
	if !asJSON {
		fmt.Fprintf(c.stdout, "%v; examining the engines directly\n\n", errNoProcess)
	}
	report, err := node.ExamineEngines(ctx, s.Config)
	if err != nil {
		return err
	}
	return errors.Join(report.Write(c.stdout, asJSON), report.Err())
}
