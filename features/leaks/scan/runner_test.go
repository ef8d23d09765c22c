package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/streamtest"
	"github.com/eventrelay/relay/test/websites"
)

// service is a configuration with a verified domain, and the log of hits.
type service struct {
	*config.Control
	canary string // fingerprint of the secret of a tripwire
	site   *site

	mu    sync.Mutex // guards the fields below
	hits  []*finding.Hit
	known map[string]bool
	proof string // what a check finds instead of the proof
	own   []secrets.Custom
	ahead atomic.Int64
	nodes atomic.Int64 // that have a runner
}

func newService(t *testing.T) *service {
	t.Helper()
	_, conf := streamtest.Broker(t, 4)
	ctx, cancel := context.WithCancel(context.Background())
	keyring, err := seal.NewKeyring("test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	must.Do(t, err)
	s := &service{site: newSite(t), known: map[string]bool{}}
	s.Control, err = config.New(config.Config{Node: "test", Partitions: 4, SingleNode: true},
		config.Deps{Log: slog.New(slog.DiscardHandler), Stream: conf, Keyring: keyring, Now: s.now})
	must.Do(t, err)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Control.Run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	select {
	case <-s.Ready():
	case <-time.After(2 * time.Minute):
		t.Fatal("the configuration is not ready")
	}
	s.add(t, "dom_1", "shop.example.com:"+s.site.port)
	s.add(t, "dom_2", "www.example.com:"+s.site.port)
	return s
}

func (s *service) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// add adds a verified domain.
func (s *service) add(t *testing.T, id, hostname string) {
	t.Helper()
	d, err := entity.Create(t.Context(), s, &leak.Domain{Meta: entity.Meta{ID: id}, Hostname: hostname})
	if err == nil {
		_, err = s.Recheck(t.Context(), d)
	}
	must.Do(t, err)
}

func (s *service) Recheck(ctx context.Context, d *leak.Domain) (*leak.Domain, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.RecordDomainCheck(ctx, d.ID, leak.DomainCheck{At: s.now(), Method: "dns", Error: s.proof})
}

func (s *service) HasFinding(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id]
}

func (s *service) CustomRules() ([]secrets.Custom, int64) { return s.own, 1 }

// TripwireByFingerprint implements intake.Tripwires.
func (s *service) TripwireByFingerprint(fingerprint string) *leak.Tripwire {
	if s.canary == "" || s.canary != fingerprint {
		return nil
	}
	return &leak.Tripwire{Meta: entity.Meta{ID: "trw_1"}, Domain: "dom_1"}
}

func (s *service) LeakedKey(string) (*config.Key, bool) { return nil, false }

func (s *service) ProduceUnordered(_ string, _ int32, r *stream.Record, done func(*stream.Record, error)) {
	h, err := finding.Decode(r.Value)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits = append(s.hits, h)
	done(r, err)
}

func (s *service) Admit(_ context.Context, _ string, members []string, most int) []bool {
	out := make([]bool, len(members))
	for i := range out {
		out[i] = i < most
	}
	return out
}

// runner returns the runner of another node.
func (s *service) runner(t *testing.T) *Runner {
	return s.runnerOf(t, fmt.Sprint("node ", s.nodes.Add(1)))
}

func (s *service) runnerOf(t *testing.T, node string) *Runner {
	return NewRunner(RunnerDeps{
		Log: slog.New(slog.DiscardHandler), Node: node, Config: s, Proofs: s, Producer: s, Findings: s, Partitions: 4,
		Now: s.now, Rules: secrets.NewScanners(rules(t)),
		Scanner: newScanner(t, websites.Transport(t, s.site.dns, s.site.Site), testBudget()),
		MayScan: func(string) bool { return true }, IsOwner: func() bool { return true },
		Interval: 5 * time.Millisecond,
	})
}

// start queues a scan.
func (s *service) start(t *testing.T, id string) {
	t.Helper()
	_, err := s.CreateScan(t.Context(), &leak.Scan{Meta: entity.Meta{ID: id}, Domain: "dom_1",
		Hostname: "shop.example.com:" + s.site.port, Trigger: leak.ScanManual})
	must.Do(t, err)
}

// await runs scans until one has ended, and returns it.
func (s *service) await(t *testing.T, id string) *leak.Scan {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		must.Do(t, s.runner(t).runOpen(ctx))
		if x, _ := s.Scan(id); x.Ended() {
			return x
		}
	}
}

// The hits of a scan are in the log before it ends. A second scan finds the same findings. Each says where it is, and
// is critical: everybody can read it.
func TestScanMakesFindings(t *testing.T) {
	s := newService(t)
	want := len(s.site.plant()) + 2 // and two exposed files
	s.start(t, "scn_1")
	got := s.await(t, "scn_1")
	if got.Status != leak.ScanCompleted || got.FindingsNew != want || got.FindingsOld != 0 || got.Pages == 0 ||
		got.Error != "" || len(got.Skipped) == 0 || len(got.ThirdParty) != 1 || len(s.hits) != want {
		t.Errorf("%+v, %d hits, want %d", got, len(s.hits), want)
	}
	ids := map[string]bool{}
	for _, h := range s.hits {
		ids[string(h.ID[:])] = true
		s.known[h.Finding] = true
		if h.Source != finding.Scan || h.Sender != "dom_1" || h.Location.ScanID != "scn_1" || h.Location.URL == "" ||
			!h.Billed || h.Unverified || h.Severity != finding.Critical {
			t.Errorf("%+v", h)
		}
	}
	is.Equal(t, len(ids), want, "ids of %d hits", want)
	s.start(t, "scn_2")
	if again := s.await(t, "scn_2"); again.FindingsNew != 0 || again.FindingsOld != want {
		t.Errorf("a second scan: %+v", again)
	}
}

// Rules of the account are looked for too, with their name and their severity. Metrics count requests and scans.
func TestOwnRulesInScans(t *testing.T) {
	s := newService(t)
	s.own = []secrets.Custom{{ID: "custom:acme", Name: "Acme key", Prefixes: []string{"acme_"}, Charset: "alnum", Min: 12,
		Max: 40, Left: "word", Right: "word", Severity: secrets.Low}}
	s.site.html("/", `acme_q8ZkT2vN4xW7 <a href="/of/acme_q8ZkT2vN4xW7?x=1">a</a>`)
	s.start(t, "scn_1")
	r := s.runner(t)
	must.Do(t, r.runOpen(t.Context()))
	got, _ := s.Scan("scn_1")
	if len(s.hits) != 1 || s.hits[0].Rule != "custom:acme" || s.hits[0].RuleName != "Acme key" ||
		s.hits[0].Severity != finding.Low || s.hits[0].Fingerprint != "" {
		t.Fatalf("%+v, %+v", s.hits, got)
	}
	if len(got.Skipped) != 1 || strings.Contains(got.Skipped[0].Path, "q8ZkT2vN4xW7") {
		t.Errorf("%+v", got.Skipped)
	}
	m := r.deps.Scanner.metrics
	if testutil.ToFloat64(m.ended.WithLabelValues(leak.ScanCompleted)) != 1 || testutil.ToFloat64(m.running) != 0 ||
		testutil.ToFloat64(m.requests.WithLabelValues(requestAnswered)) != float64(len(s.site.counts())) {
		t.Errorf("%v requests, %d of them arrived", testutil.ToFloat64(m.requests.WithLabelValues(requestAnswered)),
			len(s.site.counts()))
	}
}

// A scan whose node ends without a word is begun again by another one, makes the same hits, and ends once, with the
// report of the whole website.
func TestScanOutlivesItsNode(t *testing.T) {
	s := newService(t)
	want := len(s.site.plant()) + 2
	reached, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.site.on("/b", func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(reached); <-leave })
		io.WriteString(w, `<!doctype html><a href="/c">c</a>`)
	})
	s.start(t, "scn_1")
	ctx, kill := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.runner(t).Run(ctx) })
	<-reached
	if _, err := s.CreateScan(t.Context(), &leak.Scan{Meta: entity.Meta{ID: "scn_2"}, Trigger: "manual"}); !errors.Is(
		err, leak.ErrScanRunning) {
		t.Errorf("a second scan: %v", err)
	}
	is.OK(t, s.runner(t).runOpen(t.Context()))
	if x, _ := s.Scan("scn_1"); x.Try != 1 {
		t.Errorf("another node has begun it while the first runs: %+v", x)
	}
	kill()
	close(leave)
	wg.Wait()
	if x, _ := s.Scan("scn_1"); x.Ended() {
		t.Fatalf("%+v", x)
	}
	s.ahead.Add(int64(scanLease + time.Second))
	got := s.await(t, "scn_1")
	if got.Status != leak.ScanCompleted || got.Try != 2 || got.FindingsNew != want || len(s.hits) != want {
		t.Errorf("%+v, %d hits, want %d", got, len(s.hits), want)
	}
}

// A node that has restarted begins its scan again at once. One that could not end a scan lets others try first.
func TestScanOfARestartedNode(t *testing.T) {
	s := newService(t)
	s.site.html("/", "nothing")
	s.start(t, "scn_1")
	must.Get(s.BeginScan(t.Context(), "scn_1", "a", time.Hour))(t)
	r := s.runnerOf(t, "a")
	must.Do(t, r.runOpen(t.Context()))
	if x, _ := s.Scan("scn_1"); x.Status != leak.ScanCompleted || x.Try != 2 || x.Node != "" {
		t.Errorf("%+v", x)
	}
	s.start(t, "scn_2")
	ended, end := context.WithCancel(t.Context())
	s.site.on("/", func(http.ResponseWriter, *http.Request) { end() })
	if err := r.runOpen(ended); err == nil {
		t.Error("the scan has ended")
	}
	is.OK(t, r.runOpen(t.Context()))
	if x, _ := s.Scan("scn_2"); x.Ended() || x.Try != 1 {
		t.Errorf("%+v", x)
	}
}

// A domain without its proof is not requested; its scan says so. A scan that ends every node is given up.
func TestScanNeedsAProof(t *testing.T) {
	s := newService(t)
	for i, x := range []struct{ proof, want string }{
		{leak.DomainMismatch, leak.ScanVerificationExpired}, {leak.DomainUnreachable, errorUnreachable},
		{leak.DomainBlocked, errorBlockedAddress},
	} {
		s.proof = x.proof
		id := "scn_" + string(rune('a'+i))
		s.start(t, id)
		if got := s.await(t, id); got.Status != leak.ScanFailed || got.Error != x.want {
			t.Errorf("%s: %+v", x.proof, got)
		}
	}
	s.proof = ""
	s.start(t, "scn_tries")
	for range maxScanTries {
		must.Get(s.BeginScan(t.Context(), "scn_tries", "a", 0))(t)
	}
	if got := s.await(t, "scn_tries"); got.Error != leak.ScanInterrupted {
		t.Errorf("%+v", got)
	}
	is.Equal(t, len(s.site.requests()), 0, "requests")
}

// A verified domain is scanned a week after its last scan, one domain at a time; others are not.
func TestWeeklyScan(t *testing.T) {
	s := newService(t)
	r := s.runner(t)
	queue := func() *leak.Scan {
		t.Helper()
		must.Do(t, r.queueWeekly(t.Context()))
		return s.OpenScan()
	}
	if x := queue(); x != nil {
		t.Errorf("at once: %+v", x)
	}
	s.ahead.Store(int64(weekly + time.Minute))
	var names []string
	for range 2 {
		x := queue()
		if x == nil || x.Trigger != leak.ScanWeekly || x.CreatedBy != "" {
			t.Fatalf("%+v", x)
		}
		if again := queue(); again.ID != x.ID {
			t.Errorf("two at once: %+v", again)
		}
		names = append(names, s.await(t, x.ID).Domain)
	}
	slices.Sort(names)
	if x := queue(); x != nil || !slices.Equal(names, []string{"dom_1", "dom_2"}) {
		t.Errorf("%+v, %v", x, names)
	}
}
