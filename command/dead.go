package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node/admin"
)

// deadCommands returns the commands for dead letters: records that could not be decoded or stored.
func deadCommands() cli.Group {
	return cli.Group{Name: "dead", Verbs: []cli.Verb{
		{Name: "list", Args: "[--limit 50] [--topic TOPIC] [--body]", Help: "list dead letters, the newest first",
			Flags: listDead},
		{Name: "retry", Args: "PARTITION:OFFSET | --all --yes [--topic TOPIC]",
			Help: "put dead letters back where they were read", Flags: retryDead},
	}, About: `A record that a node cannot decode, or that the store refuses, becomes a dead letter: the topic dead keeps
it for 30 days. list shows dead letters, the newest first: where each was read, by which consumer group, and the
error; --body adds headers and value. retry puts one back where it was read, once the cause is gone: after an
upgrade, or when a table is repaired. A record that still cannot be decoded is refused. --topic is where they
were read: events, commands, outcomes, receipts, retry.5s and so on.
`}
}

func listDead(flags *flag.FlagSet) cli.Action {
	limit := flags.Int("limit", 50, "how many to list, at most 1000")
	topic := flags.String("topic", "", "only those read from this topic")
	body := flags.Bool("body", false, "show headers and value")
	return cli.Action{
		Misuse: func(arguments []string) string {
			if fault := cli.NoArguments(arguments); fault != "" {
				return fault
			}
			if *limit < 1 || *limit > admin.MaxDeadList {
				return fmt.Sprintf("--limit must be from 1 to %d", admin.MaxDeadList)
			}
			return ""
		},
		Do: func(ctx context.Context, c *cli.Client, _ []string) error {
			query := url.Values{"limit": {strconv.Itoa(*limit)}, "topic": {*topic}, "body": {strconv.FormatBool(*body)}}
			var records []admin.DeadRecord
			return c.Call(ctx, http.MethodGet, "/dead?"+query.Encode(), nil, &records, func() {
				printDead(c, records, *limit)
			})
		},
	}
}

func printDead(c *cli.Client, records []admin.DeadRecord, limit int) {
	if len(records) == 0 {
		fmt.Fprintln(c.Out, "no dead letters")
		return
	}
	t := cli.NewTable("ID", "TIME", "READ FROM", "BY", "BYTES", "EVENT", "ERROR")
	for _, r := range records {
		t.Row(r.ID, r.At.Format(time.RFC3339), fmt.Sprintf("%s[%d]@%d", r.Topic, r.Partition, r.Offset), r.Group, r.Size,
			r.Event, r.Error)
		for _, h := range r.Headers {
			t.Row("  " + h[0] + ": " + h[1])
		}
		if r.Body != nil {
			more := ""
			if r.Truncated {
				more = fmt.Sprintf(" … (the first %d bytes)", admin.MaxDeadBody)
			}
			t.Row("  " + r.BodyEncoding + ": " + *r.Body + more)
		}
	}
	t.Print(c.Out, c.Color)
	if len(records) == limit {
		fmt.Fprintln(c.Out, "there may be more: --limit shows up to", admin.MaxDeadList)
	}
}

func retryDead(flags *flag.FlagSet) cli.Action {
	all := flags.Bool("all", false, "retry all")
	yes := flags.Bool("yes", false, "confirm --all")
	topic := flags.String("topic", "", "with --all: only those read from this topic")
	return cli.Action{
		Misuse: func(arguments []string) string {
			switch {
			case *all && len(arguments) > 0:
				return "--all takes no id"
			case *all && !*yes:
				return "--all retries every dead letter; add --yes to confirm"
			case !*all && *topic != "":
				return "--topic goes with --all"
			case !*all && len(arguments) != 1:
				return "retry takes one PARTITION:OFFSET, which list shows, or --all"
			case !*all && !isDeadID(arguments[0]):
				return fmt.Sprintf("%q is not PARTITION:OFFSET, such as 3:1207", arguments[0])
			}
			return ""
		},
		Do: func(ctx context.Context, c *cli.Client, arguments []string) error {
			ask := admin.RetryDead{All: *all, Topic: *topic}
			if !*all {
				ask.ID = arguments[0]
			}
			return c.CallWithProgress(ctx, "/dead/retry", ask, func(raw []byte) error {
				var r admin.RetriedDead
				if err := json.Unmarshal(raw, &r); err != nil {
					return err
				}
				if r.Refused != "" {
					fmt.Fprintf(c.Out, "%s  %s\n", r.ID, cli.Paint(c.Color, "refused: "+cli.Printable(r.Refused)))
				} else {
					fmt.Fprintf(c.Out, "%s  put back\n", r.ID)
				}
				return nil
			})
		},
	}
}

func isDeadID(text string) bool {
	_, _, ok := admin.ParseDeadID(text)
	return ok
}
