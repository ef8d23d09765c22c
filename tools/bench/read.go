package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/tools/bench/fill"
)

// readOptions are the options of the scenario read.
type readOptions struct {
	relay    string
	dir      string
	requests int
	limit    time.Duration
	write    int
	deep     int
	only     string
}

const readSummary = "measures lists, single reads and usage on a store that fill has filled"

// read measures reads on a store that relay-bench fill has filled.
func read(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseReadOptions(args, stderr)
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
		sinkListen: "127.0.0.1:0",
	}, "read", stderr, startRelay)
	if err != nil {
		return err
	}
	defer b.close()
	m := &readBench{o: o, bench: b, relay: b.r, stdout: stdout}
	return m.run(ctx)
}

func parseReadOptions(args []string, stderr io.Writer) (o readOptions, err error) {
	beside, err := relayBeside()
	if err != nil {
		return o, err
	}
	flags := newFlags("read", "--data-dir DIR [flags]", readSummary)
	flags.StringVar(&o.relay, "relay", beside, "binary under test")
	flags.StringVar(&o.dir, "data-dir", "", "data directory that relay-bench fill has filled")
	flags.IntVar(&o.requests, "requests", 100, "requests of each kind, made one after the other")
	flags.DurationVar(&o.limit, "limit", 20*time.Second, "maximum time for the requests of one kind; later requests "+
		"are left out")
	flags.IntVar(&o.write, "write", 1_000, "events per second to send meanwhile through the batch route; 0 = none")
	flags.IntVar(&o.deep, "deep", 500, "number of the page that the kind deep reads")
	flags.StringVar(&o.only, "only", "", "measure only kinds whose name contains this")
	if err := parse(flags, args, stderr); err != nil {
		return o, err
	}
	switch {
	case o.dir == "":
		return o, MisuseError{errors.New("read: --data-dir is missing; name a directory that relay-bench fill has filled")}
	case o.requests < 1 || o.write < 0 || o.deep < 1:
		return o, MisuseError{errors.New("read: --requests and --deep must be positive, --write not negative")}
	}
	if _, err := os.Stat(o.dir); err != nil {
		return o, MisuseError{fmt.Errorf("read: %w", err)}
	}
	return o, nil
}

// reading is one run of the scenario.
type readBench struct {
	o      readOptions
	bench  *benchRun
	relay  *relay // of bench
	stdout io.Writer

	endpoints []fill.Endpoint
	events    int64     // number of events of this month
	eventIDs  []string  // of events of any age
	longAgo   time.Time // a time before most events
	results   []readResult
}

// request is one kind of read.
type readKind struct {
	name   string
	budget time.Duration
	// path returns the path of the nth request.
	path func(n int) string
	// pause is the time before each request, so that no cached answer is measured.
	pause time.Duration
}

// readResult is the result of one kind of read. Times are in milliseconds.
type readResult struct {
	Name     string  `json:"name"`
	Requests int     `json:"requests"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
	Budget   float64 `json:"budget_ms"`
	CPU      float64 `json:"cpu_ms"` // of the relay and its engines per request, including concurrent writes
	Rows     int     `json:"rows"`   // in the last answer
}

// Budgets of the kinds of reads, for the 99th percentile.
const (
	pageBudget      = 60 * time.Millisecond
	singleBudget    = 30 * time.Millisecond
	usageBudget     = 50 * time.Millisecond
	searchBudget    = 2500 * time.Millisecond
	selectionBudget = 2 * time.Second
)

func (m *readBench) run(ctx context.Context) error {
	if err := m.findData(ctx); err != nil {
		return err
	}
	writes, err := m.startWrites(ctx)
	if err != nil {
		return err
	}
	measured := m.measureAll(ctx)
	sent, refused, err := writes.stop()
	if err := errors.Join(measured, err); err != nil {
		return err
	}
	fmt.Fprintf(m.stdout, "%.0f events a second were written (%d refused)\n", sent, refused)
	line, err := json.Marshal(object{
		"scenario": "read", "events_this_month": m.events, "write": m.o.write, "written": sent, "kinds": m.results,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(m.stdout, "%s\n", line)
	return nil
}

// startWrites starts sending events to their own endpoint, in up to 20 batches a second. It returns nil if --write is
// 0.
func (m *readBench) startWrites(ctx context.Context) (*background, error) {
	if m.o.write == 0 {
		return nil, nil
	}
	const batchesASecond, largestBatch = 20, 1_000
	id, err := m.relay.makeEndpoint(ctx, object{"destinations": m.bench.destinations("ok")})
	if err != nil {
		return nil, err
	}
	p := pace{rate: m.o.write, batch: min(max(m.o.write/batchesASecond, 1), largestBatch)}
	return m.bench.startBackground(ctx, m.bench.postAt(p, "writes", m.relay.eventsURL(id), 0))
}

// measureAll measures every kind that --only selects.
func (m *readBench) measureAll(ctx context.Context) error {
	fmt.Fprintf(m.stdout, "%d events this month; %d events a second are written meanwhile; %d requests of each kind\n",
		m.events, m.o.write, m.o.requests)
	fmt.Fprintf(m.stdout, "%-42s %8s %9s %9s %9s %9s %9s\n", "", "requests", "p50 ms", "p99 ms", "max ms",
		"CPU ms", "budget")
	for _, k := range m.kinds() {
		if !strings.Contains(k.name, m.o.only) {
			continue
		}
		if err := m.measure(ctx, k); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	if err := m.measureDeep(ctx); err != nil {
		return fmt.Errorf("deep paging: %w", err)
	}
	if err := m.measureRecovery(ctx); err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	return nil
}

// findData finds the endpoints and events that can be read.
func (m *readBench) findData(ctx context.Context) (err error) {
	if m.endpoints, err = m.relay.filledEndpoints(ctx); err != nil {
		return err
	}
	if len(m.endpoints) < 2 {
		return errors.New("the data directory has no endpoints of a fill; run relay-bench fill on it first")
	}
	var use wire.Usage
	if err := m.relay.call(ctx, http.MethodGet, "/v1/usage", nil, &use); err != nil {
		return err
	}
	m.events = use.Events.Total
	for days := range 25 {
		until := time.Now().AddDate(0, 0, -days)
		rows, _, err := m.page(ctx, "limit=100&until="+url.QueryEscape(until.UTC().Format(time.RFC3339)))
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			m.eventIDs, m.longAgo = append(m.eventIDs, rows...), until.AddDate(0, 0, -1)
		}
	}
	if len(m.eventIDs) == 0 {
		return errors.New("the store has no events; run relay-bench fill on this data directory first")
	}
	return nil
}

// page reads a page of the list of events and returns the ids of its rows.
func (m *readBench) page(ctx context.Context, query string) (ids []string, next string, err error) {
	var page wire.List[wire.EventRow]
	err = m.relay.call(ctx, http.MethodGet, "/v1/events?"+query, nil, &page)
	for _, x := range page.Data {
		ids = append(ids, x.ID)
	}
	return ids, page.NextCursor, err
}

// kinds returns all reads whose requests are independent of each other.
func (m *readBench) kinds() []readKind {
	busy, rare := m.endpoints[0], m.endpoints[len(m.endpoints)-1]
	ago := url.QueryEscape(m.longAgo.UTC().Format(time.RFC3339))
	event := func(n int) string { return "/v1/events/" + m.eventIDs[n*37%len(m.eventIDs)] }
	attempts := func(n int) string { return event(n) + "/attempts" }
	all := []readKind{
		list("newest", ""),
		list("endpoint, busy", "endpoint_id="+busy.ID),
		list("endpoint, rare", "endpoint_id="+rare.ID),
		list("endpoints, two rare", "endpoint_id="+rare.ID+","+m.endpoints[len(m.endpoints)-2].ID),
	}
	for _, status := range []string{"delivered", "failed", "retrying", "pending", "skipped", "rejected"} {
		all = append(all, list("status "+status, "status="+status))
	}
	return append(all,
		list("type, common", "type=order.paid"),
		list("type, by prefix", "type=invoice.*"),
		list("type, rare", "type=account.closed"),
		list("source api", "source=api"),
		list("processing failed", "processing=failed"),
		list("processing missing", "processing=missing"),
		list("destination, rare", "destination_id="+rare.Dests[0].ID),
		list("far back", "until="+ago),
		list("far back, endpoint rare", "until="+ago+"&endpoint_id="+rare.ID),
		list("far back, failed", "until="+ago+"&status=failed"),
		list("far back, pending", "until="+ago+"&status=pending"),
		list("endpoint busy, failed", "status=failed&endpoint_id="+busy.ID),
		list("endpoint rare, failed", "status=failed&endpoint_id="+rare.ID),
		list("endpoint rare, pending", "status=pending&endpoint_id="+rare.ID),
		list("endpoint busy, delivered", "status=delivered&endpoint_id="+busy.ID),
		list("endpoint busy, type rare", "type=account.closed&endpoint_id="+busy.ID),
		list("failed, type rare", "status=failed&type=account.closed"),
		readKind{name: "single event", budget: singleBudget, path: event},
		readKind{name: "attempts of an event", budget: singleBudget, path: attempts},
		readKind{name: "usage, counted anew", budget: usageBudget, path: fixedPath("/v1/usage"), pause: usageCacheTime},
		search("12 letters that are nowhere", "q=zq7xk0vwp3hj"),
		search("8 letters that are nowhere", "q=zq7xk0vw"),
		search("6 letters that are nowhere", "q=zq7xk0"),
		search("words that are nowhere beside each other", "q=zone+zone+zone+zone+zone"),
		search("common word", "q=customer"),
		search("string at a path, nowhere", "body[id]=zq7xk0vwp3hj"),
		search("number at a path, nowhere", "body[number]=123456789012"),
		search("header, nowhere", "header[x-request-id]=zq7xk0vwp3hj"),
	)
}

// fixedPath returns the same path for all requests of a kind.
func fixedPath(path string) func(int) string { return func(int) string { return path } }

// list reads a page of the events list.
func list(name, query string) readKind {
	return readKind{name: name, budget: pageBudget, path: fixedPath("/v1/events?" + query)}
}

// search reads one page of a search over 30 days, which may end before it has searched all of them.
func search(name, query string) readKind {
	return readKind{name: "search, " + name, budget: searchBudget, path: func(int) string {
		return "/v1/events?since=" + url.QueryEscape(time.Now().UTC().AddDate(0, 0, -30).Format(time.RFC3339)) + "&" + query
	}}
}

// usageCacheTime is slightly longer than the relay caches the answer of usage.
const usageCacheTime = 5100 * time.Millisecond

// warmUps is how many requests of a kind are not measured.
const warmUps = 3

// rowCount is the number of rows in the data of an answer. The data of a single event is its own and counts 0.
type rowCount int

// UnmarshalJSON counts the elements of an array; any other value counts 0.
func (c *rowCount) UnmarshalJSON(data []byte) error {
	var rows []json.RawMessage
	if len(data) > 0 && data[0] == '[' {
		if err := json.Unmarshal(data, &rows); err != nil {
			return err
		}
	}
	*c = rowCount(len(rows))
	return nil
}

// measure makes the requests of one kind.
func (m *readBench) measure(ctx context.Context, k readKind) error {
	var took []time.Duration
	rows := 0
	began, before := time.Now(), m.relay.cpuUsed()
	for n := -warmUps; n < m.o.requests && (time.Since(began) < m.o.limit || len(took) == 0); n++ {
		if n == 0 {
			before = m.relay.cpuUsed()
		}
		var answer struct{ Data rowCount }
		if err := wait.For(ctx, k.pause); err != nil {
			return err
		}
		start := time.Now()
		if err := m.relay.call(ctx, http.MethodGet, k.path(n+warmUps), nil, &answer); err != nil {
			return err
		}
		if rows = int(answer.Data); n >= 0 || time.Since(began) > m.o.limit {
			took = append(took, time.Since(start))
		}
	}
	m.addResult(k.name, k.budget, took, rows, m.relay.cpuUsed()-before)
	return nil
}

func (m *readBench) addResult(name string, budget time.Duration, took []time.Duration, rows int, cpu time.Duration) {
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Round(100*time.Microsecond).Microseconds()) / 1000 }
	at := func(q float64) float64 { return ms(took[min(int(q*float64(len(took))), len(took)-1)]) }
	r := readResult{name, len(took), at(0.5), at(0.99), at(1), ms(budget), ms(cpu / time.Duration(len(took))), rows}
	m.results = append(m.results, r)
	mark := ""
	if r.P99 > r.Budget {
		mark = "  over"
	}
	fmt.Fprintf(m.stdout, "%-42s %8d %9.1f %9.1f %9.1f %9.1f %9.0f%s\n", name+rowsOf(rows), r.Requests,
		r.P50, r.P99, r.Max, r.CPU, r.Budget, mark)
}

// rowsOf describes how many rows an answer had, if any.
func rowsOf(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d rows)", n)
}

// cpuUsed returns the CPU time that the relay and its engines have used so far, in steps of 10 ms.
func (r *relay) cpuUsed() time.Duration { return cpu(withChildren(r.pids...)...) }

// measureDeep reads the newest pages one by one, then the last of them repeatedly.
func (m *readBench) measureDeep(ctx context.Context) error {
	if !strings.Contains("deep paging", m.o.only) {
		return nil
	}
	var took []time.Duration
	cursor, rows, before := "", 0, m.relay.cpuUsed()
	for range m.o.deep {
		start := time.Now()
		ids, next, err := m.page(ctx, "cursor="+url.QueryEscape(cursor))
		if err != nil {
			return err
		}
		took, rows = append(took, time.Since(start)), len(ids)
		if next == "" {
			break
		}
		cursor = next
	}
	m.addResult(fmt.Sprintf("deep paging, pages 1 to %d", len(took)), pageBudget, took, rows, m.relay.cpuUsed()-before)
	return m.measure(ctx, list(fmt.Sprintf("deep paging, page %d", len(took)+1), "cursor="+url.QueryEscape(cursor)))
}

// recoveries is how often a recovery job is prepared.
const recoveries = 5

// measureRecovery prepares recovery jobs for the endpoint that had an outage, and cancels them.
func (m *readBench) measureRecovery(ctx context.Context) error {
	if !strings.Contains("recovery selection", m.o.only) {
		return nil
	}
	var took []time.Duration
	total, before := 0, m.relay.cpuUsed()
	for range recoveries {
		var job wire.Recovery
		since := time.Now().AddDate(0, 0, -29).UTC().Format(time.RFC3339)
		start := time.Now()
		err := m.relay.call(ctx, http.MethodPost, "/v1/recoveries",
			object{"endpoint_id": m.endpoints[1].ID, "since": since, "rate_per_second": 1}, &job)
		for poll := time.NewTicker(20 * time.Millisecond); err == nil && job.State == "preparing"; {
			<-poll.C
			err = m.relay.call(ctx, http.MethodGet, "/v1/recoveries/"+job.ID, nil, &job)
		}
		if err != nil {
			return err
		}
		took, total = append(took, time.Since(start)), job.Total
		if err := m.relay.call(ctx, http.MethodPost, "/v1/recoveries/"+job.ID, object{"action": "cancel"}, nil); err != nil {
			return err
		}
	}
	m.addResult("recovery selection", selectionBudget, took, total, m.relay.cpuUsed()-before)
	return nil
}
