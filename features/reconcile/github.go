package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/config/kinds"
)

const (
	// maxAsked is how often a delivery is asked for again.
	maxAsked = 5
	// underWay is how long an asked delivery may take to be listed.
	underWay = 2 * time.Minute
	// maxOpen bounds the events that are remembered, and maxAhead how far GitHub's clock may be ahead of ours.
	maxOpen, maxAhead = 10_000, time.Hour
)

// github asks GitHub to redeliver what failed, so that the requests come signed through ingest:
// https://docs.github.com/en/rest/repos/webhooks#list-deliveries-for-a-repository-webhook. Each attempt is listed as a
// delivery of its own, with the GUID of the first one.
type github struct {
	*client
	base  string // with the path of the webhook
	types []string
	// open has the events that did not arrive, by GUID. It lasts over passes, which list the newest attempts only.
	open map[string]*undelivered
}

func newGitHub(c *client, base, hook string, types []string) *github {
	c.header = http.Header{"Authorization": {"Bearer " + c.credential}, "Accept": {"application/vnd.github+json"},
		"X-Github-Api-Version": {"2022-11-28"}, "User-Agent": {"EventRelay"}}
	c.rights = "the right to read and redeliver webhooks (repository or organization permission Webhooks: Read and write)"
	return &github{c, base + "/" + hook, types, map[string]*undelivered{}}
}

// attempt is a delivery in GitHub's list.
type attempt struct {
	ID          int64     `json:"id"`
	GUID        string    `json:"guid"`
	DeliveredAt time.Time `json:"delivered_at"`
	StatusCode  int       `json:"status_code"`
	Event       string    `json:"event"`
}

// undelivered is an event without a successful attempt.
type undelivered struct {
	newest  int64     // attempt
	at      time.Time // of the oldest attempt that was listed
	asked   int       // how often it was asked for
	askedAt time.Time
	given   bool // up
}

var errTooManyOpen = fmt.Errorf("the provider lists more than %d events that did not arrive: set since to a later time",
	maxOpen)

// next is the link to the next page in a Link header (RFC 8288).
var next = regexp.MustCompile(`<([^>]*)>; *rel="next"`)

// pass asks for each event since from that was attempted and never delivered, oldest first.
func (g *github) pass(ctx context.Context, from time.Time, count *Counts, _ takeFunc) error {
	attempts, arrived, err := g.list(ctx, from)
	if err != nil {
		return err
	}
	maps.DeleteFunc(g.open, func(guid string, x *undelivered) bool {
		return arrived[guid] || time.Since(x.at) > kinds.Horizon("github")
	})
	listed := map[string]int{} // attempts, by GUID
	var tooMany error          // said when those that are remembered were asked for: as they arrive, they make room
	for _, a := range attempts {
		if arrived[a.GUID] {
			continue
		}
		if listed[a.GUID]++; g.open[a.GUID] == nil {
			if len(g.open) == maxOpen {
				tooMany = errTooManyOpen
				continue
			}
			g.open[a.GUID] = &undelivered{}
			count.Found++
		}
		x := g.open[a.GUID]
		if x.newest < a.ID {
			x.newest = a.ID
		}
		if x.at.IsZero() || a.DeliveredAt.Before(x.at) {
			x.at = a.DeliveredAt
		}
		x.asked = max(x.asked, listed[a.GUID]-1) // by an earlier owner, or by a person
	}
	for _, guid := range slices.SortedFunc(maps.Keys(g.open), func(a, b string) int {
		return cmp.Or(g.open[a].at.Compare(g.open[b].at), cmp.Compare(a, b))
	}) {
		x := g.open[guid]
		switch {
		case time.Since(x.askedAt) < underWay:
		case x.asked >= maxAsked:
			if !x.given {
				x.given = true
				count.GivenUp++
			}
		default:
			path := "/deliveries/" + strconv.FormatInt(x.newest, 10) + "/attempts"
			if _, err := g.ask(ctx, http.MethodPost, g.base+path, nil); err != nil {
				return err
			}
			x.asked, x.askedAt = x.asked+1, time.Now()
			count.Asked++
		}
	}
	return tooMany
}

// list returns the failed attempts since from, and the GUIDs of those that succeeded.
func (g *github) list(ctx context.Context, from time.Time) (failed []attempt, arrived map[string]bool, err error) {
	arrived = map[string]bool{}
	query := url.Values{"per_page": {"100"}}
	for range maxPages {
		var list page[attempt]
		header, err := g.ask(ctx, http.MethodGet, at(g.base, "/deliveries", query), &list)
		if err != nil {
			return nil, nil, err
		}
		for _, a := range list {
			switch {
			case len(a.GUID) > maxID, time.Until(a.DeliveredAt) > maxAhead:
				return nil, nil, errOdd
			case a.DeliveredAt.Before(from), len(g.types) > 0 && !slices.Contains(g.types, a.Event):
			case a.StatusCode >= 200 && a.StatusCode < 300:
				arrived[a.GUID] = true
			default:
				a.Event = "" // it could be long
				failed = append(failed, a)
			}
		}
		cursor := cursorOf(header)
		if len(list) == 0 || list[len(list)-1].DeliveredAt.Before(from) || cursor == "" {
			return failed, arrived, nil
		}
		query.Set("cursor", cursor)
	}
	return nil, nil, errTooMany
}

// cursorOf returns the cursor of the next page. The rest of the link is not used: it could lead elsewhere.
func cursorOf(h http.Header) string {
	m := next.FindStringSubmatch(h.Get("Link"))
	if m == nil {
		return ""
	}
	link, err := url.Parse(m[1])
	if err != nil {
		return ""
	}
	return link.Query().Get("cursor")
}
