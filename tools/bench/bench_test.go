package bench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/tools/bench/count"
)

// TestMain is also the binaries that scenarios start: their own, and a relay.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "version" {
		fmt.Println("fake")
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "migrate" {
		fmt.Println("topics and tables are ready")
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "config" {
		if err := fakeConfig(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && slices.Contains([]string{"dev", "serve", "engine"}, os.Args[1]) {
		if err := fakeProcess(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && slices.Contains([]string{"load", "sink", "floor-pipe"}, os.Args[1]) {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if _, err := Helper(ctx, os.Args[1], os.Args[2:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fakeProcess is a fake relay as a process of its own, or an engine that does nothing, with as much of a
// command line as is needed.
func fakeProcess(what string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if what == "engine" { // it takes every request
		network, address, told := "tcp", "127.0.0.1:0", ""
		if i := slices.Index(os.Args, "--listen"); i > 0 { // a unix socket, as those of the embedded engines
			told = os.Args[i+1]
			network, address = "unix", strings.TrimPrefix(told, "unix:")
		}
		l, err := net.Listen(network, address)
		if err != nil {
			return err
		}
		defer l.Close()
		go func() {
			_ = http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
			}))
		}()
		fmt.Println(os.Args[2], "listens on", cmp.Or(told, l.Addr().String()))
		<-ctx.Done()
		return nil
	}
	held := ""
	if i := slices.Index(os.Args, "--data-dir"); i > 0 && what == "dev" {
		held = filepath.Join(os.Args[i+1], "held")
		file, key := filepath.Join(os.Args[i+1], "master.keys"), seal.GenerateKey("fake")
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			return err
		}
	}
	admin := os.Getenv("RELAY_ADMIN_LISTEN")
	if i := slices.Index(os.Args, "--admin-listen"); i > 0 {
		admin = os.Args[i+1]
	}
	l, err := net.Listen("tcp", admin)
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "go_memstats_mallocs_total %d\nrelay_embedded_log_sync_seconds_count{topics=\"durable\"} %d\n",
				time.Now().UnixMicro(), time.Now().UnixMilli())
			fmt.Fprintf(w, "relay_dispatch_outcomes_total{status=\"held\",reason=\"paused\"} %d\n", time.Now().UnixMilli())
		}))
	}()
	f := startFakeRelay(deliverOnce, os.Getenv("RELAY_BOOTSTRAP_KEY"))
	defer f.stop()
	if os.Getenv("RELAY_ROLES") != "" {
		f.log = held
	} else if raw, err := os.ReadFile(held); err == nil {
		for line := range strings.Lines(string(raw)) {
			id, event, _ := strings.Cut(line, " ")
			f.send(f.endpointOf(id), event)
		}
	}
	if file := os.Getenv("RELAY_TLS_CERT_FILE"); file != "" {
		cert, err := tls.LoadX509KeyPair(file, os.Getenv("RELAY_TLS_KEY_FILE"))
		if err != nil {
			return err
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
		if err != nil {
			return err
		}
		defer l.Close()
		go func() { _ = http.Serve(l, f.Config.Handler) }()
		f.URL = "https://" + l.Addr().String()
	}
	fmt.Println("EventRelay is ready at", f.URL)
	<-ctx.Done()
	return nil
}

// fakeRelay accepts events and delivers them as its function says, again and again while it is answered with an error.
type fakeRelay struct {
	*httptest.Server
	// deliver returns how often the event of a mark is delivered.
	deliver func(count.Mark) int
	// late is for how long what is delivered again waits.
	late time.Duration
	// behind is how many first pages the store is behind for; negative = there is no store.
	pagesBehind atomic.Int64
	// answer is the status for the event of a mark; nil = 202.
	answer func(count.Mark) int
	client http.Client
	key    string
	log    string // a file that keeps the events, each behind its endpoint's id, of a relay without a dispatcher

	mu        sync.Mutex // guards what follows
	endpoints map[string]*fakeEndpoint
	wg        sync.WaitGroup
}

type fakeEndpoint struct {
	urls   []string
	paused bool
	held   []string
}

func newFakeRelay(t *testing.T, deliver func(count.Mark) int) *fakeRelay {
	f := startFakeRelay(deliver, "secret")
	t.Cleanup(f.stop)
	return f
}

func startFakeRelay(deliver func(count.Mark) int, key string) *fakeRelay {
	f := &fakeRelay{deliver: deliver, key: key, endpoints: map[string]*fakeEndpoint{}, answer: func(count.Mark) int {
		return 202
	}}
	f.client.Transport = &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 50}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/endpoints", f.create)
	mux.HandleFunc("PATCH /v1/endpoints/{id}", f.change)
	mux.HandleFunc("POST /v1/endpoints/{id}/events", f.accept)
	mux.HandleFunc("POST /v1/endpoints/{id}/events/batch", f.accept)
	mux.HandleFunc("POST /peer/{id}", f.accept)
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, _ *http.Request) {
		switch n := f.pagesBehind.Add(-1); {
		case n%3 == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n >= 0:
			w.Header().Set("Relay-Data-As-Of", "2026-01-01T00:00:00Z")
		}
	})
	f.Server = httptest.NewServer(mux)
	return f
}

func (f *fakeRelay) stop() {
	f.Close()
	f.wg.Wait()
	f.client.CloseIdleConnections()
}

func (f *fakeRelay) create(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Destinations []struct {
			URL     string
			Enabled *bool
		}
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || r.Header.Get("Authorization") != "Bearer "+f.key {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var urls []string
	for _, d := range body.Destinations {
		if d.Enabled == nil || *d.Enabled {
			urls = append(urls, d.URL)
		}
	}
	// The id says where to deliver to, so that every node of a cluster knows it.
	fmt.Fprintf(w, `{"id":"%x"}`, strings.Join(urls, " ")+" ")
}

// endpoint is called with the lock held, as endpointOf is.
func (f *fakeRelay) endpoint(r *http.Request) *fakeEndpoint { return f.endpointOf(r.PathValue("id")) }

func (f *fakeRelay) endpointOf(id string) *fakeEndpoint {
	e := f.endpoints[id]
	if e == nil {
		urls, _ := hex.DecodeString(id)
		e = &fakeEndpoint{urls: strings.Fields(string(urls))}
		f.endpoints[id] = e
	}
	return e
}

func (f *fakeRelay) change(_ http.ResponseWriter, r *http.Request) {
	var body struct{ Paused bool }
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.endpoint(r)
	if e.paused = body.Paused; !e.paused {
		for _, event := range e.held {
			f.send(e, event)
		}
		e.held = nil
	}
}

func (f *fakeRelay) accept(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	e, status := f.endpoint(r), 202
	for event := range strings.Lines(string(body)) {
		mark, ok := count.Find([]byte(event))
		if !ok {
			status = http.StatusBadRequest
			break
		}
		status = f.answer(mark)
		if f.log != "" {
			f.logEvent(r.PathValue("id") + " " + strings.TrimSpace(event) + "\n")
			continue
		}
		for i := range f.deliver(mark) {
			switch {
			case e.paused:
				e.held = append(e.held, event)
			case i > 0 && f.late > 0:
				f.wg.Go(func() {
					time.Sleep(f.late)
					f.send(e, event)
				})
			default:
				f.send(e, event)
			}
		}
	}
	w.WriteHeader(status)
}

func (f *fakeRelay) logEvent(line string) {
	out, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = out.WriteString(line)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		panic(err)
	}
}

func (f *fakeRelay) send(e *fakeEndpoint, event string) {
	for _, url := range e.urls {
		f.wg.Go(func() {
			for {
				resp, err := f.client.Post(url, "application/json", strings.NewReader(event))
				if err != nil {
					return // the benchmark is over
				}
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return
				}
			}
		})
	}
}

// figures runs a scenario and returns its line of JSON.
func runScenario(t *testing.T, name string, args ...string) (Result, string, error) {
	t.Helper()
	for _, s := range Scenarios() {
		if s.Name != name {
			continue
		}
		var out bytes.Buffer
		var fault kit.Buffer
		err := s.Run(t.Context(), append([]string{"--json", "--duration", "500ms"}, args...), &out, &fault)
		var r Result
		if out.Len() > 0 {
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
		}
		return r, fault.String(), err
	}
	t.Fatalf("no scenario %q", name)
	return Result{}, "", nil
}

func deliverOnce(count.Mark) int { return 1 }

func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	f := newFakeRelay(t, deliverOnce)
	r, progress, err := runScenario(
		t, "flat", "--target", f.URL, "--key", "secret", "--posters", "4", "--pids", fmt.Sprint(os.Getpid()))
	if err != nil {
		t.Fatal(err, progress)
	}
	s := r.Streams[0]
	if r.Accepted == 0 || r.Refused+r.Lost+r.Duplicates != 0 || r.Delivered != r.Accepted ||
		s.Accept.All.N() != r.Accepted || s.Arrivals[0].Latency.All.N() != r.Accepted {
		t.Errorf("accepted %d, refused %d, lost %d, duplicates %d, delivered %d, %d and %d latencies", r.Accepted, r.Refused,
			r.Lost, r.Duplicates, r.Delivered,
			s.Accept.All.N(), s.Arrivals[0].Latency.All.N())
	}
	if s.Answers[202] != r.Accepted {
		t.Errorf("answers %v, accepted %d", s.Answers, r.Accepted)
	}
	if len(r.CPU) != 3 || r.CPU[0].Name != "relay" || r.CPU[1].Name != "load" || r.CPU[2].Name != "sink" ||
		r.CPU[0].Seconds == 0 || r.RSSMax == 0 ||
		r.CPU[0].RSS == 0 || r.CPU[0].RSSMax < r.CPU[0].RSS || r.CPU[1].RSSMax != 0 {
		t.Errorf("CPU and memory %+v, in all %d", r.CPU, r.RSSMax)
	}
	if !strings.Contains(progress, "accepted") || len(r.Series) == 0 {
		t.Errorf("no progress was told: %q, %d samples", progress, len(r.Series))
	}
	var said bytes.Buffer
	table(&said, &r)
	if want := fmt.Sprintf("%d accepted, 0 refused, 0 lost, 0 duplicates", r.Accepted); !strings.Contains(
		said.String(), want) {
		t.Errorf("table lacks %q:\n%s", want, said.String())
	}
}

// What a relay loses and doubles is found, though as many arrive as were accepted.
func TestPlantedLossAndDuplicateAreFound(t *testing.T) {
	t.Parallel()
	f := newFakeRelay(t, func(m count.Mark) int {
		switch m.Number {
		case 5:
			return 0
		case 7:
			return 2
		}
		return 1
	})
	b := runPosts(t, f, "steady", func(o *options) { o.rate = 200 }, time.Second)
	if r := b.result; r.Accepted < 10 || r.Lost != 1 || r.Duplicates != 1 || r.Delivered != r.Accepted-1 ||
		r.verdict() == nil {
		t.Errorf("accepted %d, lost %d, duplicates %d, delivered %d, verdict %v", r.Accepted, r.Lost, r.Duplicates,
			r.Delivered, r.verdict())
	}
}

// A duplicate that arrives long after all other events is found, and the run ends when the store has all rows.
func TestLateDuplicateIsFoundAndTheStoreWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFakeRelay(t, func(m count.Mark) int {
		if m.Number == 80 {
			return 2
		}
		return 1
	})
	f.late = time.Second
	f.pagesBehind.Store(7)
	b := runPosts(t, f, "steady", func(o *options) { o.rate = 200 }, time.Second)
	if r := b.result; r.Accepted < 10 || r.Lost != 0 || r.Duplicates != 1 || f.pagesBehind.Load() >= 0 {
		t.Errorf("accepted %d, lost %d, duplicates %d; the store is behind for %d pages", r.Accepted, r.Lost, r.Duplicates,
			f.pagesBehind.Load())
	}
	if f := b.result.Figures; len(f) != 1 || f[0].Value < 0.6 || f[0].Value > 10 {
		t.Errorf("%+v", f)
	}
}

// The CPU and the memory of what a process has started are counted with it.
func TestChildProcessesAreCounted(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; read x; :'; :")
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	must.Get(out.Read(make([]byte, 1)))(t)
	pids := withChildren(cmd.Process.Pid)
	if own, all := cpu(pids[0]), cpu(pids...); len(pids) != 2 || all-own < 20*time.Millisecond ||
		rss(pids...) <= rss(pids[0]) {
		t.Errorf("%d processes: %v by itself, %v with what it started", len(pids), own, all)
	}
	_ = in.Close()
	_ = cmd.Wait()
}

// An event that was refused and arrived all the same makes up for none that was lost.
func TestRefusedEventHidesNoLoss(t *testing.T) {
	t.Parallel()
	f := newFakeRelay(t, func(m count.Mark) int {
		if m.Number == 5 {
			return 0
		}
		return 1
	})
	f.answer = func(m count.Mark) int {
		if m.Number == 7 {
			return 503
		}
		return 202
	}
	b := runPosts(t, f, "steady", func(o *options) { o.rate = 200 }, time.Second)
	if r := b.result; r.Accepted < 10 || r.Refused != 1 || r.Lost != 1 || r.Delivered != r.Accepted ||
		r.Streams[0].Answers[503] != 1 {
		t.Errorf("accepted %d, refused %d, lost %d, delivered %d, answers %v", r.Accepted, r.Refused, r.Lost, r.Delivered,
			r.Streams[0].Answers)
	}
}

// runPosts measures one stream to a fake relay, waiting so long for the last event.
func runPosts(t *testing.T, f *fakeRelay, name string, set func(*options), wait time.Duration) *benchRun {
	t.Helper()
	own := must.Get(os.Executable())(t)
	o := options{self: own, target: f.URL, key: "secret", posters: 4, duration: 500 * time.Millisecond,
		sinkListen: "127.0.0.1:0", quiet: true}
	set(&o)
	b := must.Get(newBenchRun(t.Context(), o, name, io.Discard, startRelay))(t)
	t.Cleanup(b.close)
	posts := must.Get(b.endpointPosts(t.Context(), b.destinations("ok"), 0))(t)
	must.Do(t, b.measure(t.Context(), posts, wait, nil))
	return b
}

// Every scenario counts what is to arrive, and no more.
func TestScenariosAddUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args       string
		streams, perPost int
	}{
		{"fanout", "--rate 50", 1, 5},
		{"transform", "--rate 50", 1, 1},
		{"hung", "--rate 20", 5, 1},
		{"hung", "--rate 20 --same-host --tls --http2", 5, 1},
		{"retrystorm", "--events 50 --batch 10", 2, 1},
		{"batch", "--batch 20 --posters 1", 1, 1},
		{"tls", "--posters 2", 1, 1},
		{"tls", "--posters 2 --http2", 1, 1},
		{"drain", "--events 50 --batch 10", 1, 1},
		{"mixed", "--rate 40", 5, 1},
	} {
		if testing.Short() && c.name != "hung" {
			continue // all of them take the same way
		}
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			t.Parallel()
			f := newFakeRelay(t, deliverOnce)
			r, said, err := runScenario(t, c.name,
				append(strings.Fields(c.args), "--target", f.URL, "--key", "secret", "--quiet")...)
			if err != nil {
				t.Fatal(err, said)
			}
			if said != "" {
				t.Errorf("it was to be quiet: %s", said)
			}
			var want int64
			for _, s := range r.Streams {
				want += s.Accepted * int64(len(s.Arrivals))
				for _, a := range s.Arrivals {
					if a.Arrived != s.Accepted || a.Latency.All.N() != s.Accepted {
						t.Errorf("%s: %d accepted, %d arrived at %d", s.Name, s.Accepted, a.Arrived, a.Destination)
					}
				}
			}
			if len(r.Streams) != c.streams || len(r.Streams[0].Arrivals) != c.perPost || r.Accepted == 0 ||
				r.Lost+r.Duplicates+r.Refused != 0 {
				t.Errorf("%d streams, %d accepted, %d delivered of %d, %d lost, %d duplicates, %d refused", len(r.Streams),
					r.Accepted, r.Delivered, want, r.Lost, r.Duplicates, r.Refused)
			}
			if a := r.Streams[0].Arrivals[0]; c.name == "retrystorm" && a.Requests <= a.Arrived {
				t.Errorf("half of all requests fail, and %d were enough for %d events", a.Requests, a.Arrived)
			}
			if events := r.Streams[0].Accepted; strings.Contains(c.args, "--events") && events != 50 {
				t.Errorf("%d events, want 50", events)
			}
		})
	}
}

// What was posted while no dispatcher ran is delivered by the next process.
func TestDrainOfAStoppedDispatcher(t *testing.T) {
	t.Parallel()
	own := must.Get(os.Executable())(t)
	r, said, err := runScenario(t, "drain", "--stopped", "--relay", own, "--events", "30", "--batch", "10", "--quiet")
	if err != nil || r.Accepted != 30 || r.Delivered != 30 || r.Lost+r.Duplicates != 0 || r.AllSeconds <= 0 ||
		len(r.Figures) != 3 || r.Figures[2].Value <= 0 {
		t.Errorf("%v: accepted %d, delivered %d in %v s, figures %v\n%s", err, r.Accepted, r.Delivered, r.AllSeconds,
			r.Figures, said)
	}
}

// Every node of a cluster gets its share of the load, and its processes are counted.
func TestServeNodesShareTheLoad(t *testing.T) {
	t.Parallel()
	own := must.Get(os.Executable())(t)
	r, said, err := runScenario(t, "steady", "--relay", own, "--serve", "2", "--rate", "200")
	if err != nil {
		t.Fatal(err, said)
	}
	if len(r.Streams) != 2 || r.Accepted < 90 || r.Accepted > 110 || r.Delivered != r.Accepted ||
		!strings.Contains(r.Settings, "2 serve nodes") {
		t.Errorf("%s: %d streams, %d accepted, %d delivered", r.Settings, len(r.Streams), r.Accepted, r.Delivered)
	}
	var names []string
	for _, p := range r.CPU {
		names = append(names, p.Name)
	}
	if want := []string{"relay", "clickhouse", "kafka", "redis", "load", "sink"}; !slices.Equal(names, want) {
		t.Errorf("processes %v, want %v", names, want)
	}
	if _, said, err := runScenario(t, "flat", "--relay", "/nowhere", "--serve", "1"); err == nil {
		t.Errorf("a cluster of nothing was started: %s", said)
	}
}

// Events are posted to a relay that serves TLS, the API included.
func TestPostsOverTLS(t *testing.T) {
	t.Parallel()
	own := must.Get(os.Executable())(t)
	for _, kind := range []string{"rsa", "ecdsa"} {
		r, said, err := runScenario(t, "flat", "--certificate", kind, "--handshake", "--relay", own, "--quiet")
		if err != nil || r.Accepted == 0 || r.Lost+r.Refused+r.Duplicates != 0 ||
			!strings.Contains(r.Settings, strings.ToUpper(kind)+" certificate, a connection for each post") {
			t.Errorf("%s: %v: %+v\n%s", kind, err, r, said)
		}
	}
}

// Two binaries are run in turns, each as often, and what they cost is set side by side.
func TestCompareAlternatesBinaries(t *testing.T) {
	t.Parallel()
	own := must.Get(os.Executable())(t)
	run := func(args ...string) (string, string, error) {
		var out, said kit.Buffer
		err := compare(t.Context(), args, &out, &said)
		return out.String(), said.String(), err
	}
	out, said, err := run("--base", own, "--relay", own, "--turns", "2", "--json", "steady", "--rate", "100",
		"--duration", "200ms")
	var c comparison
	if err != nil || json.Unmarshal([]byte(out), &c) != nil {
		t.Fatalf("%v: %s\n%s", err, out, said)
	}
	if c.Turns != 2 || c.Base != "fake" || c.New != "fake" || c.Scenario != "steady" || strings.Count(said, "base") != 2 ||
		strings.Count(said, "new ") != 2 {
		t.Errorf("%+v\n%s", c, said)
	}
	for _, f := range c.Figures {
		if f.Name == "allocations an event" &&
			(f.Base.Median <= 0 || f.Ratio.Min <= 0 || f.Ratio.Max < f.Ratio.Median || f.Ratio.Median < f.Ratio.Min) {
			t.Errorf("%+v", f)
		}
	}
	var b bytes.Buffer
	c.print(&b)
	if !strings.Contains(b.String(), "new ÷ base") || !strings.Contains(b.String(), "accept p99 ms") ||
		!strings.Contains(b.String(), "all events stored after") {
		t.Errorf("the table is\n%s", b.String())
	}
	for args, want := range map[string]string{
		"":                               "--base is missing",
		"--base x --turns 0":             "--turns: 0",
		"--base x nothing":               `no scenario "nothing"`,
		"--base x floor":                 `no scenario "floor"`,
		"--base x flat --posters 0":      "--posters: 0",
		"--base /nowhere flat --rate 10": "turn 1 of /nowhere",
	} {
		if _, _, err := run(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for want, values := range map[spread][]float64{
		{}: nil, {2, 1, 3}: {3, 1, 2}, {2.5, 1, 4}: {4, 1, 2, 3}, {7, 7, 7}: {7}} {
		if got := newSpread(values); got != want {
			t.Errorf("%v: %v, want %v", values, got, want)
		}
	}
}

// The bare pipeline delivers what it accepts, and its metrics and processes are read as the relay's are.
func TestFloorDeliversWhatItAccepts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	r, said, err := runScenario(t, "floor", "--posters", "4", "--relay", "none", "--profile", file)
	if err != nil || r.Accepted == 0 || r.Delivered != r.Accepted || r.Lost+r.Duplicates+r.Refused != 0 {
		t.Fatalf("%v: accepted %d, delivered %d, lost %d, duplicates %d\n%s", err, r.Accepted, r.Delivered, r.Lost,
			r.Duplicates, said)
	}
	if r.Mallocs == 0 || r.Disk < 1000 || r.RSSMax < 1<<20 || r.CPU[0].Seconds == 0 {
		t.Errorf("%v mallocs, %d B on disk, %d B of memory, CPU %v", r.Mallocs, r.Disk,
			r.RSSMax, r.CPU)
	}
	var shares float64
	for _, s := range r.Stages {
		shares += s.Share
	}
	if _, err := readProfile(file); err != nil || shares < 0.999 || shares > 1.001 {
		t.Errorf("%v: stages %v", err, r.Stages)
	}
	if _, _, err := runScenario(t, "drain", "--stages"); err == nil ||
		!strings.Contains(err.Error(), "cannot be used with drain") {
		t.Error(err)
	}
	if _, _, err := runScenario(t, "floor", "--target", "http://127.0.0.1:1", "--key", "k"); err == nil ||
		!strings.Contains(err.Error(), "starts its own pipeline") {
		t.Errorf("floor of a target: %v", err)
	}
}

func TestPeerReceivesPosts(t *testing.T) {
	t.Parallel()
	f := newFakeRelay(t, deliverOnce)
	file := filepath.Join(t.TempDir(), "peer.json")
	description := fmt.Sprintf(
		`{"name":"other","url":"%s/peer/0","headers":{"X-Number":"{{n}}"},"body":{"mark":"{{mark}}","text":"{{filler}}"}}`,
		f.URL)
	must.Do(t, os.WriteFile(file, []byte(description), 0o600))
	// Its set-up is the person's: here it delivers to where the sink will listen.
	addr := must.Get(freeAddress(t.Context()))(t)
	f.endpoints["0"] = &fakeEndpoint{urls: []string{"http://" + addr + "/any"}}
	r, said, err := runScenario(t, "steady", "--peer", file, "--rate", "100", "--sink-listen", addr)
	if err != nil || r.Accepted < 10 || r.Delivered != r.Accepted || r.Lost != 0 ||
		!strings.Contains(r.Settings, "other") {
		t.Errorf("%v: %+v\n%s", err, r, said)
	}
}

func TestPeerFaultsAreNamed(t *testing.T) {
	t.Parallel()
	const good = `{"url":"http://h/","body":"{{mark}}"`
	for text, want := range map[string]string{
		`{`:                                         "unexpected EOF",
		good + `,"colour":1}`:                       `unknown field "colour"`,
		good + `,"expect":[20]}`:                    "expect: 20 is not an HTTP status",
		good + `,"expect":[]}`:                      "expect: no status",
		good + `,"method":"post"}`:                  `method: "post" is not an HTTP method`,
		good + `,"headers":{"a b":"c"}}`:            `headers: "a b" cannot be sent`,
		good + `,"headers":{"content-length":"1"}}`: "content-length is set by the benchmark",
		good + `,"headers":{"A":"b\r\nC: d"}}`:      `headers: "A" cannot be sent`,
		`{"url":"https://h/","body":"{{mark}}"}`:    `url: "https://h/" is not an http:// URL`,
		`{"url":"http://h/","body":"x"}`:            "body: {{mark}} is missing",
		good + `,"expect":[200],"method":"PUT","headers":{"A":"b"}}`: "",
	} {
		_, err := parsePeer([]byte(text))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) && want != "" {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestMisuseIsNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--posters 0":                           "--posters: 0 is out of range, use 1 to 4096",
		"--duration 1ms":                        "--duration: 1ms is out of range, use 100ms",
		"--batch 1001":                          "--batch: 1001",
		"--target http://127.0.0.1:1":           "--key is missing",
		"--key x":                               "use them with --target",
		"--serve 17":                            "--serve: 17 is out of range, use 0 to 16",
		"--kafka h:1":                           "--kafka: use it with --serve",
		"--serve 1 --target http://x --key k":   "--serve: cannot be used with --target",
		"--serve 1 --certificate rsa":           "--certificate: cannot be used with",
		"--certificate dsa":                     "use rsa or ecdsa",
		"--serve 1 --stored 5":                  "--stored: cannot be used with --target, --peer or --serve",
		"--data-dir x --stored 5":               "--stored: cannot be used with --data-dir",
		"--stored 50000001":                     "--stored: 50000001 is out of range",
		"--pids 1":                              "--pids: use it with",
		"--target http://x --key k --pids x":    `"x" is not a process id`,
		"--sink-listen nowhere":                 "--sink-listen",
		"--peer /nowhere.json":                  "no such file",
		"--target http://x --key k --profile f": "--admin is missing",
		"more":                                  `no argument "more"`,
	} {
		_, said, err := runScenario(t, "flat", strings.Fields(args)...)
		var misuse MisuseError
		if !errors.As(err, &misuse) || !strings.Contains(err.Error()+said, want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// What is posted in the background ends when it is told to, and says what became of it.
func TestBackgroundPostsStop(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	f := newFakeRelay(t, func(m count.Mark) int { arrived.Add(1); return deliverOnce(m) })
	b := runPosts(t, f, "steady", func(o *options) { o.rate = 100 }, time.Second)
	before := arrived.Load()
	b.o.duration = time.Hour
	posts := must.Get(b.endpointPosts(t.Context(), b.destinations("ok"), 0))(t)
	g := must.Get(b.startBackground(t.Context(), posts[0]))(t)
	kit.WaitFor(t, "30 events arrive", func() bool { return arrived.Load() >= before+30 })
	if rate, refused, err := g.stop(); err != nil || rate <= 0 || rate > 110 || refused != 0 {
		t.Errorf("%.0f events a second, %d refused: %v", rate, refused, err)
	}
	if rate, refused, err := (*background)(nil).stop(); err != nil || rate != 0 || refused != 0 {
		t.Errorf("of nothing: %.0f events a second, %d refused: %v", rate, refused, err)
	}
}

func TestFillMisusesAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                             "either --data-dir or --clickhouse-url",
		"--data-dir x --events 0":      "events must be 1 to",
		"--data-dir x --endpoints 0":   "--endpoints: 0 is out of range, use 1 to 20000",
		"--data-dir x --outage -1":     "outage must be 0 to",
		"--clickhouse-url x --batch 0": "batch must be 1 to",
	} {
		var misuse MisuseError
		if err := fillStore(t.Context(), strings.Fields(args), io.Discard, io.Discard); !errors.As(err, &misuse) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
