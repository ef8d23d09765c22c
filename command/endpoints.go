package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"time"

	"github.com/eventrelay/relay/node/admin"
)

// Endpoints are the commands about endpoints that the API does not have.
func Endpoints() Group {
	return Group{name: "endpoints", help: `Usage:
  relay endpoints move ENDPOINT --partition N [--wait 5m] [--leave] [--dry-run]

move gives a busy endpoint a partition of its own, or another node. New events go there at once and wait there until
everything of the earlier ones is done in the old partition, at most for --wait; if that is not enough, the endpoint
is moved back. What waits for a retry longer than that is refused before anything changes: wait for it, purge it
(POST /v1/endpoints/ENDPOINT/destinations/DESTINATION/purge), or leave it with --leave. It is then done in the old
partition while the new one delivers: rates are kept all the same, through Redis, but max_in_flight counts for each.
Every record of an event, a later replay too, goes to the partition that the event was accepted in.
--dry-run says what is open and changes nothing. relay migrate --partitions adds partitions.
`, verbs: map[string]verb{"move": moveEndpoint}}
}

func moveEndpoint(flags *flag.FlagSet) action {
	m := admin.Move{}
	flags.IntVar(&m.Partition, "partition", -1, "where it is to be")
	wait := flags.Duration("wait", 5*time.Minute, "how long to wait for what is open, at most 1h")
	flags.BoolVar(&m.Leave, "leave", false, "do not wait for what waits for a retry")
	flags.BoolVar(&m.DryRun, "dry-run", false, "say what is open and change nothing")
	return action{
		misuse: func(words []string) string {
			m.WaitSeconds = int64(*wait / time.Second)
			switch {
			case len(words) != 1:
				return "move takes the id of one endpoint"
			case m.Partition < 0:
				return "--partition is required: 0 or more"
			case *wait < time.Second || *wait > admin.MaxMoveWait:
				return fmt.Sprintf("--wait must be from 1s to %v", admin.MaxMoveWait)
			}
			m.Endpoint = words[0]
			return ""
		},
		do: func(ctx context.Context, c *Client, _ []string) error {
			return c.follow(ctx, http.MethodPost, "/move", m, func(line []byte) error {
				var s admin.MoveStep
				if err := json.Unmarshal(line, &s); err != nil {
					return err
				}
				fmt.Fprintln(c.out, s)
				return nil
			})
		},
	}
}
