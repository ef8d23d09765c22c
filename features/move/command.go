// Package move moves an endpoint to another partition, and so perhaps to another node.
package move

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
)

// Feature registers this package.
var Feature = features.Feature{Name: "move", New: newParts, Commands: []cli.Command{{
	Name: "endpoints", After: "engine", Run: commands().Run,
	Help: "move an endpoint to another partition",
}}}

// commands are those for endpoints that the API does not have.
func commands() cli.Group {
	return cli.Group{Name: "endpoints", Verbs: []cli.Verb{{
		Name: "move", Args: "ENDPOINT --partition N [--wait 5m] [--leave] [--dry-run]",
		Help: "move an endpoint to another partition", Flags: moveEndpoint,
	}}, About: `move gives a busy endpoint another partition, and so perhaps another node. New events go to the new
partition at once and wait there until all earlier ones are completed in the old partition, at most for --wait; after
that the endpoint is moved back. If a retry is due later than that, the move is refused before anything
changes: wait for it, purge it (POST /v1/endpoints/ENDPOINT/destinations/DESTINATION/purge), or use --leave.
With --leave the old partition completes waiting retries while the new one delivers: rates still hold, through
Redis, but max_in_flight applies to each. All records of an event, later replays too, stay in the partition
where it was accepted. --dry-run shows the open records and changes nothing. relay migrate --partitions adds
partitions.
`}
}

func moveEndpoint(flags *flag.FlagSet) cli.Action {
	m := Move{}
	flags.IntVar(&m.Partition, "partition", -1, "the new partition")
	wait := flags.Duration("wait", 5*time.Minute, "how long to wait for open records, at most 1h")
	flags.BoolVar(&m.Leave, "leave", false, "do not wait for records that wait for a retry")
	flags.BoolVar(&m.DryRun, "dry-run", false, "show the open records and change nothing")
	return cli.Action{
		Misuse: func(arguments []string) string {
			m.WaitSeconds = int64(*wait / time.Second)
			switch {
			case len(arguments) != 1:
				return "move takes the id or the name of one endpoint"
			case m.Partition < 0:
				return "--partition is required: 0 or more"
			case *wait < time.Second || *wait > maxWait:
				return fmt.Sprintf("--wait must be from 1s to %v", maxWait)
			}
			m.Endpoint = arguments[0]
			return ""
		},
		Do: func(ctx context.Context, c *cli.Client, _ []string) error {
			return c.CallWithProgress(ctx, "/move", m, func(line []byte) error {
				var s Step
				if err := json.Unmarshal(line, &s); err != nil {
					return err
				}
				fmt.Fprintln(c.Out, s)
				return nil
			})
		},
	}
}
