package reconcile

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
)

const (
	// maxAsked is how often a delivery is asked for again.
	maxAsked = 5
	// underWay is how long an asked delivery may take to be listed.
	underWay = 2 * time.Minute
)

// github asks GitHub to redeliver what failed, so that the requests come signed through ingest:
// https://docs.github.com/en/rest/repos/webhooks#list-deliveries-for-a-repository-webhook. Each attempt is listed as a
// delivery of its own, with the GUID of the first one.
type github struct {
	*client
	base  string // with the path of the webhook
	types []string
	asked map[string]time.Time // by GUID
}

func newGitHub(c *client, base, hook string, types []string) *github {
	c.header = http.Header{"Authorization": {"Bearer " + c.credential}, "Accept": {"application/vnd.github+json"},
		"X-Github-Api-Version": {"2022-11-28"}, "User-Agent": {"EventRelay"}}
	c.rights = "the right to read and redeliver webhooks (repository or organization permission Webhooks: Read and write)"
	return &github{c, base + "/" + hook, types, map[string]time.Time{}}
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
	newest   int64
	attempts int
}

// next is the link to the next page in a Link header (RFC 8288).
var next = regexp.MustCompile(`<([^>]*)>; *rel="next"`)

// pass asks for each event since from that was attempted and never delivered, oldest first.
func (g *github) pass(ctx context.Context, from time.Time, count *Counts, _ takeFunc) error {
	failed, arrived, order := map[string]*undelivered{}, map[string]bool{}, []string(nil)
	query := url.Values{"per_page": {"100"}}
	for page := 0; ; page++ {
		var list []attempt
		header, err := g.ask(ctx, http.MethodGet, at(g.base, "/deliveries", query), &list)
		if err != nil {
			return err
		}
		if len(list) > perPage {
			return errOdd
		}
		for _, a := range list {
			if len(a.GUID) > maxID {
				return errOdd
			}
			switch {
			case a.DeliveredAt.Before(from), len(g.types) > 0 && !slices.Contains(g.types, a.Event):
			case a.StatusCode >= 200 && a.StatusCode < 300:
				arrived[a.GUID] = true
			case failed[a.GUID] == nil:
				failed[a.GUID] = &undelivered{a.ID, 1}
				order = append(order, a.GUID)
			default:
				failed[a.GUID].attempts++
			}
		}
		cursor := cursorOf(header)
		if len(list) == 0 || list[len(list)-1].DeliveredAt.Before(from) || cursor == "" || page == maxPages {
			break
		}
		query.Set("cursor", cursor)
	}
	for guid, at := range g.asked {
		if failed[guid] == nil || arrived[guid] || time.Since(at) > underWay {
			delete(g.asked, guid)
		}
	}
	for _, guid := range slices.Backward(order) {
		x := failed[guid]
		if arrived[guid] {
			continue
		}
		count.Found++
		if _, waits := g.asked[guid]; waits {
			continue
		}
		if x.attempts > maxAsked {
			count.GivenUp++
			continue
		}
		path := "/deliveries/" + strconv.FormatInt(x.newest, 10) + "/attempts"
		if _, err := g.ask(ctx, http.MethodPost, g.base+path, nil); err != nil {
			return err
		}
		g.asked[guid] = time.Now()
		count.Asked++
	}
	return nil
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
