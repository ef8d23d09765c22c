package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// apiDocument is the part of the OpenAPI document that describes GET requests.
type apiDocument struct {
	Paths map[string]struct {
		Parameters []parameter
		Get        *struct {
			Parameters []parameter
			Responses  map[string]struct{ Content map[string]any }
		}
	}
	Components struct{ Parameters map[string]parameter }
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string
	In   string
}

// SQL in any parameter of any GET request is treated as text: it is rejected, or searched for and not found. Answers
// contain no error texts of the store, and nothing in the store changes.
func TestSQLInEveryParameter(t *testing.T) {
	t.Parallel()
	skipShort(t)
	p := startDevProcess(t, t.TempDir())
	endpoint, _, _ := p.endpoint(
		map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/hook", "enabled": false}}})
	p.sendMany(endpoint, 3)
	rows := func() int { return len(p.list("&endpoint_id="+endpoint, 100)) }
	eventually(t, arrival, func() string {
		if rows() != 3 {
			return "not all events are listed"
		}
		return ""
	})
	asked := 0
	for _, target := range injectedTargets(p.readAPIDocument(), []string{
		"' OR '1'='1", `\' OR 1=1 -- `, "'; DROP TABLE events; --", "x') UNION ALL SELECT * FROM system.tables --",
		"{db:Identifier}", "?", "$1",
	}) {
		asked++
		p.checkHarmless(target)
	}
	if asked < 200 {
		t.Errorf("only %d requests: the test does not understand the document", asked)
	}
	t.Logf("%d requests", asked)
	is.Equal(t, rows(), 3, "events of 3 are left")
}

func (p *process) readAPIDocument() (d apiDocument) {
	p.t.Helper()
	resp := must.Get(http.Get(p.url + "/openapi.json"))(p.t)
	defer resp.Body.Close()
	must.Do(p.t, json.NewDecoder(resp.Body).Decode(&d))
	return d
}

// injectedTargets returns the targets of all GET requests, each with one of the texts in one parameter.
func injectedTargets(d apiDocument, texts []string) (targets []string) {
	for path, item := range d.Paths {
		if item.Get == nil {
			continue
		}
		for _, ref := range slices.Concat(item.Parameters, item.Get.Parameters) {
			par := ref
			if name, ok := strings.CutPrefix(ref.Ref, "#/components/parameters/"); ok {
				par = d.Components.Parameters[name]
			}
			name := strings.TrimSuffix(par.Name, "[]")
			for _, text := range texts {
				switch par.In {
				case "path":
					targets = append(targets, fillPathParameters(strings.Replace(path, "{"+name+"}", url.PathEscape(text), 1)))
				case "query":
					names := []string{par.Name}
					if name == "body" || name == "header" {
						names = []string{name + "[" + text + "]", name + "[a]"}
					}
					for _, member := range names {
						targets = append(targets, fillPathParameters(path)+"?"+url.Values{member: {text}}.Encode())
					}
				}
			}
		}
	}
	return targets
}

// fillPathParameters replaces the remaining path parameters with plain values.
func fillPathParameters(path string) string {
	for {
		before, rest, found := strings.Cut(path, "{")
		if !found {
			return path
		}
		_, after, _ := strings.Cut(rest, "}")
		path = before + "evt_00000000000000000000000000" + after
	}
}

// checkHarmless requests a target and checks that the answer shows no error of the store and finds nothing.
func (p *process) checkHarmless(target string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, p.url+target, http.NoBody))(p.t)
	req.Header.Set("Authorization", "Bearer "+p.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Errorf("%s: %v", target, err)
		return
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return // the stream has started, so the text was accepted
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusInternalServerError || bytes.Contains(body, []byte("DB::")) ||
		bytes.Contains(body, []byte("ClickHouse")) {
		p.t.Errorf("%s: %d %.300s, %v", target, resp.StatusCode, body, err)
	}
	var page struct{ Data []any }
	if resp.StatusCode == http.StatusOK && json.Unmarshal(body, &page) == nil && len(page.Data) > 0 {
		p.t.Errorf("%s found %d rows", target, len(page.Data))
	}
}

// statementKiller is a proxy between a relay and ClickHouse. It kills ClickHouse during the next statement that
// contains a word.
type statementKiller struct {
	t        *testing.T
	store    *process
	proxy    *httputil.ReverseProxy
	database string // of the relay

	mu     sync.Mutex // guards what follows
	word   string
	killed chan struct{} // closed when the process has ended
	after  time.Duration // from the statement to the kill
	random *rand.Rand
}

func newSurgeon(t *testing.T, store *process) (s *statementKiller, address string) {
	s = &statementKiller{t: t, store: store, random: kit.Rand(t)}
	s.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: store.url}) // with the engine's own Host, because it refuses others
	}}
	s.proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.Listener.Addr().String()
}

// killDuring arms the proxy: the next statement that contains the word kills ClickHouse.
func (s *statementKiller) killDuring(word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.word, s.killed = word, make(chan struct{})
	s.after = time.Duration(s.random.Int64N(int64(4 * time.Millisecond)))
}

func (s *statementKiller) match(statement string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.word == "" || !strings.Contains(statement, s.word) {
		return nil
	}
	s.word = ""
	return s.killed
}

func (s *statementKiller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the relay has disconnected
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	statement := r.URL.Query().Get("query")
	if statement == "" {
		statement = string(body)
	}
	hit := s.match(statement)
	if hit == nil {
		s.proxy.ServeHTTP(w, r)
		return
	}
	time.AfterFunc(s.after, func() {
		s.store.kill()
		close(hit)
	})
	defer panic(http.ErrAbortHandler) // drops the connection, whatever ClickHouse has answered
	defer func() {
		<-hit
		_ = recover() // the proxy's own ErrAbortHandler
	}()
	s.proxy.ServeHTTP(httptest.NewRecorder(), r)
}

// awaitKillAndRestart waits until ClickHouse was killed and restarts it.
func (s *statementKiller) awaitKillAndRestart(word string) {
	s.t.Helper()
	s.mu.Lock()
	hit := s.killed
	s.mu.Unlock()
	select {
	case <-hit:
	case <-time.After(busy * 2 * time.Minute):
		s.t.Fatalf("no statement contains %q", word)
	}
	s.store.start()
}

// eraseDuringKill erases the payload of a delivered event and kills ClickHouse while it rewrites the rows. The returned
// function says whether the rows still contain the payload.
func (p *process) eraseDuringKill(s *statementKiller, endpoint string) (left func() string) {
	p.t.Helper()
	event := "/v1/events/" + p.list("&status=delivered&endpoint_id="+endpoint, 100)[0]["id"].(string)
	body := p.must(http.StatusOK, "GET", event, nil)["body"].(string)
	const word = "ALTER TABLE events UPDATE "
	s.killDuring(word)
	p.must(http.StatusOK, "DELETE", event+"/payload", nil)
	s.awaitKillAndRestart(word)
	return func() string {
		if n := countRowsWith(p.t, "http://"+s.store.url+"/"+s.database, body); n > 0 {
			return "an erased payload is still in the rows"
		}
		return ""
	}
}

// TestKillClickHouseInAStatement kills ClickHouse during each kind of statement: of a migration, the writer, an
// erasure, a recovery job, a list, and the usage counts. Nothing is lost, everything is counted once, and no manual
// repair is needed. Without RELAY_TORTURE the test picks some kinds at random.
func TestKillClickHouseInAStatement(t *testing.T) {
	skipShort(t)
	t.Parallel()
	s, address := newSurgeon(t, startEngine(t, "clickhouse"))
	some := func(most int, words ...string) []string {
		s.random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return words[:rounds(0, most, len(words))]
	}
	c := newCluster(t, engines{sharedEngine(t, "kafka"), "127.0.0.1:1", address}, "operated", "RELAY_LEDGER_SECONDS=10")
	s.database = strings.TrimSuffix(c.prefix, ".")
	for _, word := range some(1, "CREATE TABLE", "CREATE MATERIALIZED", "schema_version (version, name") {
		s.killDuring(word)
		out, err := c.node("").output("migrate")
		s.awaitKillAndRestart(word)
		t.Logf("migrate, killed in %s: %v", word, err)
		if err == nil {
			t.Errorf("migrate succeeded although ClickHouse was killed:\n%s", out)
		}
	}
	p := c.start("a")[0]
	dest := newSink(t, nil)
	endpoint, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	failing, recovered, repair := p.failedEvents(t, 12)
	tr := startTraffic(4, 2*time.Millisecond, in)
	for _, word := range some(
		2, "INSERT INTO events ", "INSERT INTO attempts ", "INSERT INTO deliveries ", "INSERT INTO audit ") {
		s.killDuring(word)
		if word == "INSERT INTO audit " {
			p.must(http.StatusOK, "PATCH", "/v1/endpoints/"+endpoint, map[string]any{"name": "another"})
		}
		s.awaitKillAndRestart(word)
		tr.awaitCount(t, tr.count()+50)
	}
	accepted := tr.finish()

	payloadLeft := p.eraseDuringKill(s, endpoint)
	s.killDuring("FROM attempts")
	status, answer, _ := p.call("GET", "/v1/events?endpoint_id="+endpoint, nil)
	s.awaitKillAndRestart("FROM attempts")
	if status != http.StatusServiceUnavailable || answer["error"].(map[string]any)["type"] != "unavailable" {
		t.Errorf("a list during which ClickHouse was killed is answered %d %v", status, answer)
	}

	s.killDuring("INSERT INTO recovery_items ")
	repair()
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	job := p.must(http.StatusCreated, "POST", "/v1/recoveries",
		map[string]any{"endpoint_id": failing, "since": since, "rate_per_second": 100})
	s.awaitKillAndRestart("INSERT INTO recovery_items ")
	job = p.awaitJob(t, job, 2*time.Minute, "ready")
	if job["total"] != 12.0 {
		t.Errorf("the job has %v items of 12", job["total"])
	}
	p.doAction(job, "canary")
	job = p.awaitJob(t, job, 2*time.Minute, "awaiting_approval")
	p.doAction(job, "continue")
	p.awaitJob(t, job, 2*time.Minute, "completed")

	s.killDuring("INSERT INTO usage_hour ") // the new owner of a partition counts its hours again
	must.Do(t, p.stop(syscall.SIGTERM))
	p.start()
	s.awaitKillAndRestart("INSERT INTO usage_hour ")
	awaitDelivered(t, p.client, dest, "&endpoint_id="+endpoint, accepted, 2*time.Minute)
	awaitAllDelivered(t, p.streamConfig, len(accepted)+12, dest, recovered)
	eventually(t, time.Minute, payloadLeft)
	t.Logf("%d accepted, 0 lost", len(accepted))
}
