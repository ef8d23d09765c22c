package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
)

// Feature registers this package.
var Feature = features.Feature{Name: "doctor", New: newParts, Commands: []cli.Command{{
	Name: "doctor", After: "ready", Run: doctorCommand,
	Help: "check the running process and its engines, and say what to do next",
}}}

func doctorCommand(ctx context.Context, c cli.Call) int {
	var asJSON bool
	return c.WithSettings(func(s cli.Settings, _ *slog.Logger) error {
		return runDoctor(ctx, s.Config, c, asJSON)
	}, cli.JSON(&asJSON))
}

// askDoctor prints the report of the running process. It returns an error if a check fails.
func askDoctor(ctx context.Context, c *cli.Client) error {
	var r Report
	if err := c.Call(ctx, http.MethodGet, "/doctor", nil, &r, func() { r.Print(c.Out, c.Color) }); err != nil {
		return err
	}
	return r.Err()
}

// runDoctor asks the running process. When there is none, it examines the engines itself if the settings name Kafka,
// and otherwise the files of the log.
func runDoctor(ctx context.Context, s nodeconfig.Config, c cli.Call, asJSON bool) error {
	err := askDoctor(ctx, c.Client(s.DataDir, asJSON))
	if !errors.Is(err, cli.ErrNoProcess) {
		return err
	}
	if len(s.KafkaBrokers) == 0 {
		report := Report{Checks: []Check{
			CheckFiles(stream.LogConfig{Dir: filepath.Join(s.DataDir, nodeconfig.LogDir), Fsync: s.Fsync})}}
		return errors.Join(report.write(c, asJSON), report.Err(), err)
	}
	if !asJSON {
		fmt.Fprintf(c.Stdout, "%v; examining the engines directly\n\n", cli.ErrNoProcess)
	}
	report, err := examineEngines(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(report.write(c, asJSON), report.Err())
}
