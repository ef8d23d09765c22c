package e2e

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// surgeon stands between a relay and ClickHouse, and kills ClickHouse in the middle of the next statement that has a
// word.
type surgeon struct {
	t     *testing.T
	store *process
	proxy *httputil.ReverseProxy

	mu   sync.Mutex // guards what follows
	word string
	hit  chan struct{} // closed when the process has ended
}

func newSurgeon(t *testing.T, store *process) (s *surgeon, address string) {
	s = &surgeon{t: t, store: store, proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: store.url}) // under its own name: the engine refuses others
	}}}
	s.proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.Listener.Addr().String()
}

// at makes the next statement with the word the last of the process.
func (s *surgeon) at(word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.word, s.hit = word, make(chan struct{})
}

func (s *surgeon) cuts(statement string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.word == "" || !strings.Contains(statement, s.word) {
		return nil
	}
	s.word = ""
	return s.hit
}

func (s *surgeon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the relay has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	statement := r.URL.Query().Get("query")
	if statement == "" {
		statement = string(body)
	}
	hit := s.cuts(statement)
	if hit == nil {
		s.proxy.ServeHTTP(w, r)
		return
	}
	time.AfterFunc(time.Duration(rand.Int64N(int64(4*time.Millisecond))), func() {
		s.store.kill()
		close(hit)
	})
	defer panic(http.ErrAbortHandler) // whatever it has answered by then
	defer func() {
		<-hit
		_ = recover() // the proxy's own end
	}()
	s.proxy.ServeHTTP(httptest.NewRecorder(), r)
}

// mend waits until the process was killed and starts it again.
func (s *surgeon) mend(word string) {
	s.t.Helper()
	s.mu.Lock()
	hit := s.hit
	s.mu.Unlock()
	select {
	case <-hit:
	case <-time.After(busy * 2 * time.Minute):
		s.t.Fatalf("no statement has %q", word)
	}
	s.store.start()
}

// erasedUnder erases the payload of a delivered event, whose rows are being written anew when ClickHouse dies. What it
// returns says whether they still have it.
func (p *process) erasedUnder(s *surgeon, endpoint string) (left func() string) {
	p.t.Helper()
	event := "/v1/events/" + p.list("&status=delivered&endpoint_id="+endpoint, 100)[0]["id"].(string)
	body := p.must(http.StatusOK, "GET", event, nil)["body"].(string)
	const word = "ALTER TABLE events UPDATE "
	s.at(word)
	p.must(http.StatusOK, "DELETE", event+"/payload", nil)
	s.mend(word)
	return func() string {
		if n := rowsWith(p.t, "http://"+s.store.url+"/operated", body); n > 0 {
			return "an erased payload is still in the rows"
		}
		return ""
	}
}

// TestKillClickHouseInAStatement kills it in the middle of a statement of each kind: those of a migration, of the
// writer, of an erasure, of a recovery job, of a list, of the count of usage. Nothing is lost, everything is counted
// once, and nobody has to lend a hand. The ordinary run takes some of them by chance.
func TestKillClickHouseInAStatement(t *testing.T) {
	long(t)
	t.Parallel()
	some := func(most int, words ...string) []string {
		rand.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return words[:rounds(0, most, len(words))]
	}
	s, address := newSurgeon(t, startEngine(t, "clickhouse"))
	c := newCluster(t, engines{startEngine(t, "kafka").url, "127.0.0.1:1", address}, "operated", "RELAY_LEDGER_SECONDS=10")
	for _, word := range some(1, "CREATE TABLE", "CREATE MATERIALIZED", "schema_version (version, name") {
		s.at(word)
		out, err := c.node("").output("migrate")
		s.mend(word)
		t.Logf("migrate, killed in %s: %v", word, err)
		if err == nil {
			t.Errorf("migrate says, though ClickHouse died:\n%s", out)
		}
	}
	p := c.start("a")[0]
	dest := newSink(t, nil)
	endpoint, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	failing, recovered, mended := p.recoverable(t, 12)
	tr := startTraffic(4, 2*time.Millisecond, in)
	for _, word := range some(
		2, "INSERT INTO events ", "INSERT INTO attempts ", "INSERT INTO deliveries ", "INSERT INTO audit ") {
		s.at(word)
		if word == "INSERT INTO audit " {
			p.must(http.StatusOK, "PATCH", "/v1/endpoints/"+endpoint, map[string]any{"name": "another"})
		}
		s.mend(word)
		tr.wait(t, tr.count()+50)
	}
	accepted := tr.finish()

	payloadLeft := p.erasedUnder(s, endpoint)
	s.at("FROM attempts")
	status, answer, _ := p.call("GET", "/v1/events?endpoint_id="+endpoint, nil)
	s.mend("FROM attempts")
	if status != http.StatusServiceUnavailable || answer["error"].(map[string]any)["type"] != "unavailable" {
		t.Errorf("a list in which ClickHouse died is answered %d %v", status, answer)
	}

	s.at("INSERT INTO recovery_items ")
	mended()
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	job := p.must(http.StatusCreated, "POST", "/v1/recoveries",
		map[string]any{"endpoint_id": failing, "since": since, "rate_per_second": 100})
	s.mend("INSERT INTO recovery_items ")
	job = p.job(t, job, 2*time.Minute, "ready")
	if job["total"] != 12.0 {
		t.Errorf("the job has %v items of 12", job["total"])
	}
	p.act(job, "canary")
	job = p.job(t, job, 2*time.Minute, "awaiting_approval")
	p.act(job, "continue")
	p.job(t, job, 2*time.Minute, "completed")

	s.at("INSERT INTO usage_hour ") // whoever takes partitions over counts anew
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.start()
	s.mend("INSERT INTO usage_hour ")
	settle(t, p.client, dest, "&endpoint_id="+endpoint, accepted, 2*time.Minute)
	settledDeliveries(t, p.topics(), len(accepted)+12, dest, recovered)
	eventually(t, time.Minute, payloadLeft)
	t.Logf("%d accepted, 0 lost", len(accepted))
}
