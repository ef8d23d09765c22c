package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// DeadRecord is a record that could not be read or stored, as the commands print it.
type DeadRecord struct {
	ID        string    `json:"id"`        // partition:offset in the topic dead
	At        time.Time `json:"at"`        // when it was put there
	Topic     string    `json:"topic"`     // where it was read,
	Partition int32     `json:"partition"` // in which partition
	Offset    int64     `json:"offset"`    // and at which offset
	Group     string    `json:"group"`     // who could not read it
	Error     string    `json:"error"`
	Size      int       `json:"size"` // of its value, in bytes
	Event     string    `json:"event_id,omitempty"`

	// Only with --body.
	Headers      [][2]string `json:"headers,omitempty"` // of the record; credentials are masked
	Body         *string     `json:"body,omitempty"`    // at most MaxDeadBody
	BodyEncoding string      `json:"body_encoding,omitempty"`
	Truncated    bool        `json:"body_truncated,omitempty"`
}

// RetryDead asks for records to be done again: one, or all of a topic, or all.
type RetryDead struct {
	ID    string `json:"id,omitempty"`
	All   bool   `json:"all,omitempty"`
	Topic string `json:"topic,omitempty"`
}

// RetriedDead is what came of one of them.
type RetriedDead struct {
	ID      string `json:"id"`
	Refused string `json:"refused,omitempty"` // why it was not done again
}

// Bounds of dead list.
const (
	MaxDeadList = 1000
	MaxDeadBody = 16 << 10 // bytes of each value
)

var deadID = regexp.MustCompile(`^([0-9]{1,9}):([0-9]{1,18})$`)

// ParseDeadID reads partition:offset.
func ParseDeadID(id string) (partition int32, offset int64, ok bool) {
	m := deadID.FindStringSubmatch(id)
	if m == nil {
		return 0, 0, false
	}
	p, _ := strconv.ParseInt(m[1], 10, 32) // the expression has judged them
	offset, _ = strconv.ParseInt(m[2], 10, 64)
	return int32(p), offset, true
}

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
			if *limit < 1 || *limit > MaxDeadList {
				return fmt.Sprintf("--limit must be from 1 to %d", MaxDeadList)
			}
			return ""
		},
		do: func(ctx context.Context, c *Client, _ []string) error {
			query := url.Values{"limit": {strconv.Itoa(*limit)}, "topic": {*topic}, "body": {strconv.FormatBool(*body)}}
			var records []DeadRecord
			return c.call(ctx, http.MethodGet, "/dead?"+query.Encode(), nil, &records, func() {
				c.printDead(records, *limit)
			})
		},
	}
}

func (c *Client) printDead(records []DeadRecord, limit int) {
	if len(records) == 0 {
		fmt.Fprintln(c.out, "nothing is buried")
		return
	}
	tw := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tTIME\tREAD FROM\tBY\tBYTES\tEVENT\tERROR")
	for _, r := range records {
		fmt.Fprintf(tw, "%s\t%s\t%s[%d]@%d\t%s\t%d\t%s\t%s\n", r.ID, r.At.Format(time.RFC3339), line(r.Topic), r.Partition, r.Offset, line(r.Group), r.Size, line(r.Event), line(r.Error))
		for _, h := range r.Headers {
			fmt.Fprintf(tw, "  %s: %s\n", line(h[0]), line(h[1]))
		}
		if r.Body != nil {
			more := ""
			if r.Truncated {
				more = fmt.Sprintf(" … (the first %d bytes)", MaxDeadBody)
			}
			fmt.Fprintf(tw, "  %s: %s%s\n", r.BodyEncoding, line(*r.Body), more)
		}
	}
	tw.Flush()
	if len(records) == limit {
		fmt.Fprintln(c.out, "there may be more: --limit shows up to", MaxDeadList)
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
			case !*all && !deadID.MatchString(words[0]):
				return fmt.Sprintf("%q is no PARTITION:OFFSET such as 3:1207", words[0])
			}
			return ""
		},
		do: func(ctx context.Context, c *Client, words []string) error {
			ask := RetryDead{All: *all, Topic: *topic}
			if !*all {
				ask.ID = words[0]
			}
			return c.follow(ctx, http.MethodPost, "/dead/retry", ask, func(raw []byte) error {
				var r RetriedDead
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
