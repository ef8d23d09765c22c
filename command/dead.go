package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/eventrelay/relay/node/admin"
)

// Dead are the commands about records that could not be read or stored.
func Dead() Group {
	return Group{name: "dead", help: `Usage:
  relay dead list [--limit 50] [--topic TOPIC] [--body]
  relay dead retry PARTITION:OFFSET
  relay dead retry --all --yes [--topic TOPIC]

A record that a node could not read, or that the store refused, is kept in the topic dead for 30 days. list shows
them, the newest first: where they were read, by whom, and why it failed; --body shows headers and value as well.
retry puts one back where it was read, for the group that could not read it, once the reason is gone: a newer
version, a table set right. What still cannot be read is refused. --topic is where they were read: events, commands,
outcomes, receipts, retry.5s and so on.
`, verbs: map[string]verb{"list": listDead, "retry": retryDead}}
}

func listDead(flags *flag.FlagSet) action {
	limit := flags.Int("limit", 50, "how many, at most 1000")
	topic := flags.String("topic", "", "only what was read from this topic")
	body := flags.Bool("body", false, "show headers and value")
	return action{
		misuse: func(words []string) string {
			if fault := noWords(words); fault != "" {
				return fault
			}
			if *limit < 1 || *limit > admin.MaxDeadList {
				return fmt.Sprintf("--limit must be from 1 to %d", admin.MaxDeadList)
			}
			return ""
		},
		do: func(ctx context.Context, c *Client, _ []string) error {
			query := url.Values{"limit": {strconv.Itoa(*limit)}, "topic": {*topic}, "body": {strconv.FormatBool(*body)}}
			var records []admin.DeadRecord
			return c.call(ctx, http.MethodGet, "/dead?"+query.Encode(), nil, &records, func() {
				c.printDead(records, *limit)
			})
		},
	}
}

func (c *Client) printDead(records []admin.DeadRecord, limit int) {
	if len(records) == 0 {
		fmt.Fprintln(c.out, "no dead letters")
		return
	}
	tw := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tTIME\tREAD FROM\tBY\tBYTES\tEVENT\tERROR")
	for _, r := range records {
		fmt.Fprintf(tw, "%s\t%s\t%s[%d]@%d\t%s\t%d\t%s\t%s\n", r.ID, r.At.Format(time.RFC3339), line(r.Topic), r.Partition,
			r.Offset, line(r.Group), r.Size, line(r.Event), line(r.Error))
		for _, h := range r.Headers {
			fmt.Fprintf(tw, "  %s: %s\n", line(h[0]), line(h[1]))
		}
		if r.Body != nil {
			more := ""
			if r.Truncated {
				more = fmt.Sprintf(" … (the first %d bytes)", admin.MaxDeadBody)
			}
			fmt.Fprintf(tw, "  %s: %s%s\n", r.BodyEncoding, line(*r.Body), more)
		}
	}
	tw.Flush()
	if len(records) == limit {
		fmt.Fprintln(c.out, "there may be more: --limit shows up to", admin.MaxDeadList)
	}
}

// line makes text from outside fit into a line: nothing in it moves the cursor.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
}

func retryDead(flags *flag.FlagSet) action {
	all := flags.Bool("all", false, "do all again")
	yes := flags.Bool("yes", false, "mean it")
	topic := flags.String("topic", "", "with --all: only what was read from this topic")
	return action{
		misuse: func(words []string) string {
			switch {
			case *all && len(words) > 0:
				return "--all takes no ids"
			case *all && !*yes:
				return "--all does everything again that relay dead list shows; say --yes if you mean it"
			case !*all && *topic != "":
				return "--topic goes with --all"
			case !*all && len(words) != 1:
				return "retry takes one PARTITION:OFFSET, which list shows, or --all"
			case !*all && !isDeadID(words[0]):
				return fmt.Sprintf("%q is no PARTITION:OFFSET such as 3:1207", words[0])
			}
			return ""
		},
		do: func(ctx context.Context, c *Client, words []string) error {
			ask := admin.RetryDead{All: *all, Topic: *topic}
			if !*all {
				ask.ID = words[0]
			}
			return c.follow(ctx, http.MethodPost, "/dead/retry", ask, func(raw []byte) error {
				var r admin.RetriedDead
				if err := json.Unmarshal(raw, &r); err != nil {
					return err
				}
				if r.Refused != "" {
					fmt.Fprintf(c.out, "%s\trefused: %s\n", r.ID, line(r.Refused))
				} else {
					fmt.Fprintf(c.out, "%s\tput back\n", r.ID)
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
