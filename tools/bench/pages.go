package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

const pagesSummary = "measures the dashboard's pages, each beside its API route, on a store that fill has filled"

// The person who opens the pages. Started relays listen on loopback only.
const (
	pagesEmail    = "bench@localhost"
	pagesPassword = "benchmark-password-0123456789"
)

// pages measures the dashboard's pages, and the route of the API that gives the same data, in turn.
func pages(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parsePagesOptions(args, stderr)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	const untilItIsStopped = 24 * time.Hour
	b, err := newBenchRun(ctx, options{
		self: self, relay: o.relay, dir: o.dir, fsync: true, size: 1024, duration: untilItIsStopped,
		sinkListen: "127.0.0.1:0", person: true,
	}, "pages", stderr, startRelay)
	if err != nil {
		return err
	}
	defer b.close()
	m := &readBench{o: o, bench: b, relay: b.r, stdout: stdout}
	if err := m.findData(ctx); err != nil {
		return err
	}
	browser, err := b.r.signIn(ctx)
	if err != nil {
		return err
	}
	writes, err := m.startWrites(ctx)
	if err != nil {
		return err
	}
	results, measured := m.measurePages(ctx, browser)
	sent, refused, err := writes.stop()
	if err := errors.Join(measured, err); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%.0f events a second were written (%d refused)\n", sent, refused)
	line, err := json.Marshal(object{
		"scenario": "pages", "events_this_month": m.events, "written": sent, "pages": results,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n", line)
	return nil
}

func parsePagesOptions(args []string, stderr io.Writer) (o readOptions, err error) {
	beside, err := relayBeside()
	if err != nil {
		return o, err
	}
	flags := newFlags("pages", "--data-dir DIR [flags]", pagesSummary)
	flags.StringVar(&o.relay, "relay", beside, "binary under test")
	flags.StringVar(&o.dir, "data-dir", "", "data directory that relay-bench fill has filled")
	flags.IntVar(&o.requests, "requests", 100, "requests of each page and of each route, in turn")
	flags.IntVar(&o.write, "write", 500, "events per second to send meanwhile through the batch route; 0 = none")
	if err := parse(flags, args, stderr); err != nil {
		return o, err
	}
	switch {
	case o.dir == "":
		return o, MisuseError{errors.New("pages: --data-dir is missing; name a directory that relay-bench fill has filled")}
	case o.requests < 1 || o.write < 0:
		return o, MisuseError{errors.New("pages: --requests must be positive, --write not negative")}
	}
	if _, err := os.Stat(o.dir); err != nil {
		return o, MisuseError{fmt.Errorf("pages: %w", err)}
	}
	return o, nil
}

// pageKind is a page of the dashboard, and the route with the same data.
type pageKind struct {
	name        string
	page, route func(n int) string // path of the nth request; route is nil for a page of the configuration alone
}

func (m *readBench) pageKinds() []pageKind {
	event := func(prefix string) func(int) string {
		return func(n int) string { return prefix + m.eventIDs[n*37%len(m.eventIDs)] }
	}
	first := m.endpoints[0].ID
	same := func(name, page, route string) pageKind {
		return pageKind{name, fixedPath("/app" + page), fixedPath("/v1" + route)}
	}
	month := "since=" + url.QueryEscape(time.Now().UTC().AddDate(0, 0, -30).Format(time.RFC3339))
	return []pageKind{
		{name: "start", page: fixedPath("/app")},
		same("endpoints", "/endpoints", "/endpoints?limit=50"),
		same("endpoint", "/endpoints/"+first, "/endpoints/"+first),
		same("events, newest", "/events", "/events?limit=50"),
		same("events, failed", "/events?status=failed", "/events?limit=50&status=failed"),
		same("events of an endpoint", "/events?endpoint_id="+first, "/events?limit=50&endpoint_id="+first),
		same("events, search in bodies", "/events?q=zq7xk0vwp3hj&"+month, "/events?limit=50&q=zq7xk0vwp3hj&"+month),
		{"event", event("/app/events/"), event("/v1/events/")},
		same("findings", "/findings", "/findings?limit=50"),
		same("log drains", "/drains", "/drains?limit=50"),
		{name: "API keys", page: fixedPath("/app/settings/keys")},
		{name: "people", page: fixedPath("/app/settings/people")},
		{name: "detection rules", page: fixedPath("/app/settings/detection")},
		{name: "about", page: fixedPath("/app/settings/about")},
	}
}

// pageResult has the 50th and 95th percentile of a page and of its route, in milliseconds. A page without a route has
// zeros there.
type pageResult struct {
	Name     string  `json:"name"`
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	RouteP50 float64 `json:"route_p50_ms"`
	RouteP95 float64 `json:"route_p95_ms"`
	Size     int     `json:"bytes"` // of the last page, without compression
}

// measurePages opens each page and its route in turn, so that other load affects both.
func (m *readBench) measurePages(ctx context.Context, browser *http.Client) (results []pageResult, err error) {
	fmt.Fprintf(m.stdout, "%d events this month; %d events a second are written meanwhile; %d requests of each\n",
		m.events, m.o.write, m.o.requests)
	fmt.Fprintf(m.stdout, "%-28s %9s %9s %14s %14s %9s\n", "page", "p50 ms", "p95 ms", "route p50 ms", "route p95 ms",
		"KB")
	for _, k := range m.pageKinds() {
		var page, route []time.Duration
		r := pageResult{Name: k.name}
		for n := -warmUps; n < m.o.requests; n++ {
			start := time.Now()
			if r.Size, err = m.relay.openPage(ctx, browser, k.page(n+warmUps)); err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
			opened := time.Now()
			if k.route != nil {
				if err := m.relay.call(ctx, http.MethodGet, k.route(n+warmUps), nil, nil); err != nil {
					return nil, fmt.Errorf("%s: %w", k.name, err)
				}
				if n >= 0 {
					route = append(route, time.Since(opened))
				}
			}
			if n >= 0 {
				page = append(page, opened.Sub(start))
			}
		}
		r.P50, r.P95 = percentile(page, 0.5), percentile(page, 0.95)
		r.RouteP50, r.RouteP95 = percentile(route, 0.5), percentile(route, 0.95)
		fmt.Fprintf(m.stdout, "%-28s %9.1f %9.1f %14.1f %14.1f %9.1f\n", r.Name, r.P50, r.P95, r.RouteP50, r.RouteP95,
			float64(r.Size)/1000)
		results = append(results, r)
	}
	return results, nil
}

// percentile returns the percentile q (0 to 1) of durations in milliseconds, or 0 if there are none.
func percentile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	d := took[min(int(q*float64(len(took))), len(took)-1)]
	return float64(d.Round(100*time.Microsecond).Microseconds()) / 1000
}

// signIn returns a client with a session of the dashboard.
func (r *relay) signIn(ctx context.Context) (*http.Client, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar}
	form := url.Values{"email": {pagesEmail}, "password": {pagesPassword}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/app/sign-in", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", r.url)
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || resp.Request.URL.Path == "/app/sign-in" {
		return nil, fmt.Errorf("sign in to the dashboard as %s: %s; the data directory must not have other people",
			pagesEmail, resp.Status)
	}
	return browser, nil
}

// openPage gets a page and returns its size.
func (r *relay) openPage(ctx context.Context, browser *http.Client, path string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := browser.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || resp.Request.URL.Path == "/app/sign-in") {
		err = fmt.Errorf("GET %s: %s at %s", path, resp.Status, resp.Request.URL.Path)
	}
	return int(n), err
}
