package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/node/doctor"
	"github.com/eventrelay/relay/pkg/stream"
)

// askDoctor prints the report of the running process. It returns an error if a check fails.
func askDoctor(ctx context.Context, c *client) error {
	var r doctor.Report
	if err := c.call(ctx, http.MethodGet, "/doctor", nil, &r, func() { r.Print(c.out) }); err != nil {
		return err
	}
	return r.Err()
}

// runDoctor asks the running process. When there is none, it examines the engines itself if the settings name Kafka,
// and otherwise the files of the log.
func runDoctor(ctx context.Context, s settings, c call, asJSON bool) error {
	err := askDoctor(ctx, newClient(s.DataDir, asJSON, c))
	if !errors.Is(err, cli.ErrNoProcess) {
		return err
	}
	if len(s.KafkaBrokers) == 0 {
		report := doctor.Report{Checks: []doctor.Check{
			doctor.CheckFiles(stream.LogConfig{Dir: filepath.Join(s.DataDir, logDir), Fsync: s.Fsync})}}
		return errors.Join(report.Write(c.Stdout, asJSON), report.Err(), err)
	}
	if !asJSON {
		fmt.Fprintf(c.Stdout, "%v; examining the engines directly\n\n", cli.ErrNoProcess)
	}
	report, err := node.ExamineEngines(ctx, s.Config)
	if err != nil {
		return err
	}
	return errors.Join(report.Write(c.Stdout, asJSON), report.Err())
}
