package payload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/leaktest"
	"github.com/eventrelay/relay/test/must"
)

const endpointID = "ep_1"

// world is a Scanner with a configuration and a log in memory.
type world struct {
	*leaktest.World
	scanner  *Scanner
	off      bool // payloads are not scanned
	room     int
	registry *prometheus.Registry
	own      []secrets.Custom
	revision int64
}

func newWorld(tb testing.TB) *world {
	w := &world{World: leaktest.New(tb), room: 1000, registry: prometheus.NewRegistry()}
	limiter := must.Get(
		limit.New(limit.DefaultConfig(), limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}))(tb)
	w.scanner = must.Get(New(Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: w.registry, Config: w, Producer: w, Partitions: leaktest.Partitions,
		Findings: limiter.NewDistinct("payload-findings", intake.NewFindingsSpan),
	}))(tb)
	return w
}

func (w *world) ScansPayloads(endpoint string) (string, bool) { return "shop " + endpoint, !w.off }

func (w *world) CustomRules() ([]secrets.Custom, int64) { return w.own, w.revision }

func (w *world) RemainingFindings(_ string, _ finding.Severity) int { return w.room }

// scan scans events.
func (w *world) scan(events ...*event.Event) {
	w.TB.Helper()
	must.Do(w.TB, w.scanner.Scan(w.TB.Context(), events))
}

// only scans an event and returns its one hit.
func (w *world) only(e *event.Event) *finding.Hit {
	w.TB.Helper()
	w.scan(e)
	all := w.Hits()
	if len(all) != 1 {
		w.TB.Fatalf("%d hits, want one", len(all))
	}
	return all[0]
}

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// eventAt returns the id of an event that arrived at that time.
func eventAt(t time.Time) id.ID {
	return id.NewGenerator(func() time.Time { return t }).NewUnbounded(1)
}

// received returns a verified event of a provider.
func received(body string, headers ...string) *event.Event {
	e := &event.Event{
		ID: eventAt(start), Account: "acc_1", Endpoint: endpointID, Source: event.SourceProvider,
		Verdict: event.VerdictVerified, Method: "POST", Body: []byte(body),
	}
	for i := 0; i < len(headers); i += 2 {
		e.Header = append(e.Header, event.Field{Name: headers[i], Value: headers[i+1]})
	}
	return e
}

// queried returns an event with a query string.
func queried(query string) *event.Event {
	e := received("")
	e.Query = query
	return e
}

// leakedKey returns a secret of a rule with a fingerprint; it is another one for each n.
func leakedKey(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	text := []byte("sk_" + "live_")
	for i, x := 0, uint64(n)*0x9e3779b97f4a7c15+0x1234567; i < 24; i++ {
		x = x*6364136223846793005 + 1442695040888963407
		text = append(text, letters[x>>33%uint64(len(letters))])
	}
	return string(text)
}

// A secret in a body is a hit at its JSON pointer, with the event, and its text is in no record.
func TestBodiesAreScanned(t *testing.T) {
	w := newWorld(t)
	e := received(`{"a":[1,{"b/c":"x"},{"b/c":"key `+leakedKey(1)+`"}]}`, "User-Agent", "hook/1 "+leakedKey(2)[:9])
	h := w.only(e)
	if h.Source != finding.Event || h.Sender != endpointID || h.Channel != "body" || h.Rule != "stripe-secret-live" ||
		h.Severity != finding.High || h.Unverified || h.Billed || h.N != 1 || !h.At.Equal(start) || h.Day != "2026-03-04" {
		t.Errorf("%+v", h)
	}
	want := finding.Location{Source: finding.Event, Label: "shop ep_1", Pointer: "/a/2/b~1c", EndpointID: endpointID,
		EventID: e.ID.Text(id.Event)}
	is.Equal(t, h.Location, want, "location")
	for _, r := range w.Records {
		is.Lacks(t, string(r.Value), leakedKey(1)[8:], "a record has the secret")
	}
}

// The account's own rules apply to events too, with their names and severities and without fingerprints.
func TestOwnRulesApplyToEvents(t *testing.T) {
	w := newWorld(t)
	e := received(`{"a":"acme_` + leakedKey(1)[8:] + `"}`)
	if w.scan(e); len(w.Hits()) != 0 {
		t.Fatal("a hit before there is a rule")
	}
	w.revision, w.own = 1, []secrets.Custom{{ID: "custom:acme", Name: "Acme key", Prefixes: []string{"acme_"},
		Charset: "alnum", Min: 20, Max: 64, Left: "word", Right: "word", Severity: secrets.Low}}
	h := w.only(e)
	if h.Rule != "custom:acme" || h.RuleName != "Acme key" || h.Severity != finding.Low || h.Fingerprint != "" ||
		h.Location.Pointer != "/a" || h.Masked != "acme_***"+leakedKey(1)[len(leakedKey(1))-4:] {
		t.Errorf("%+v", h)
	}
}

// Pointers are those of the value or of the member's name that holds the secret; text that is no JSON has none.
func TestPointers(t *testing.T) {
	for body, want := range map[string]string{
		`"S"`: "", `{"a":"S"}`: "/a", `{"S":1}`: "/S", `[0,"S"]`: "/1", `[[],[{}],{"x":{"y":[1,2,"S"]}}]`: "/2/x/y/2",
		`{"a":{"b":1},"c~d":"S"}`: "/c~0d", `text S`: "", `{"a":"b"} S`: "", `{"a":[}"S"`: "",
		`{"a" : [ {"b":[]} , "S" ] }`: "/a/1", `{"a":"S"`: "/a", strings.Repeat("[", 500) + `"S"`: strings.Repeat("/0", 151),
	} {
		p := pointers{body: []byte(body)}
		is.Equal(t, p.find(strings.Index(body, "S")), want, body)
	}
}

// Headers are scanned, but not those that carry credentials or signatures. Nothing is looked for but tokens that must
// stay on servers.
func TestWhatIsScanned(t *testing.T) {
	for name, x := range map[string]struct {
		e    *event.Event
		want string
	}{
		"header":         {received("", "X-Debug", "at "+leakedKey(1)), "header /headers/X-Debug"},
		"second header":  {received("", "A", "b", "X-Debug", leakedKey(1), "C", "d"), "header /headers/X-Debug"},
		"authorization":  {received("", "Authorization", "Bearer "+leakedKey(1)), ""},
		"cookie":         {received("", "Cookie", "x="+leakedKey(1)), ""},
		"signature":      {received("", "Stripe-Signature", leakedKey(1)), ""},
		"a signed name":  {received("", "X-Hub-Hmac", leakedKey(1)), ""},
		"token in JSON":  {received(`{"token":"q8ZkT2vN4xW7yR1mB5cJ9dL3","password":"q8ZkT2vN4xW7yR1m"}`), ""},
		"database":       {received("postgres://user:q8ZkT2vN4xW7yR1m@db.example.com/x"), ""},
		"public key":     {received("pk_" + leakedKey(1)[3:]), ""},
		"secret in name": {received(`{"` + leakedKey(1) + `":1}`), "body /sk_live_***" + leakedKey(1)[28:]},
		"query": {queried("a=b&redirect=https%3A%2F%2Fx%2F%3Fkey%3D" + leakedKey(1) + "&c"),
			"query /query/redirect"},
		"bare query": {queried(leakedKey(1)), "query /query/"},
	} {
		w := newWorld(t)
		w.scan(x.e)
		got := ""
		for _, h := range w.Hits() {
			got += h.Channel + " " + h.Location.Pointer
		}
		is.Equal(t, got, x.want, name)
	}
}

// Payloads of endpoints that turned the scan off, and records that one group processes again, are skipped.
func TestWhatIsSkipped(t *testing.T) {
	w := newWorld(t)
	again := received(leakedKey(1))
	again.OnlyGroup = stream.StoreGroup
	w.scan(again, received(""))
	w.off = true
	w.scan(received(leakedKey(1)))
	is.Equal(t, len(w.Records), 0, "records")
}

// Events that are scanned again make the same hits. Secrets of one event merge by finding and location.
func TestScanningAgainCountsOnce(t *testing.T) {
	w := newWorld(t)
	body := fmt.Sprintf(`{"list":["%s","%s"],"other":"%s"}`, leakedKey(1), leakedKey(1), leakedKey(2))
	e := received(body, "X-Debug", leakedKey(1))
	w.scan(e)
	first := w.Hits()
	w.scan(e, e)
	again := w.Hits()
	if len(first) != 3 || len(again) != 3 || first[0].N != 2 {
		t.Errorf("%d hits, then %d; the first counts %d", len(first), len(again), first[0].N)
	}
}

// Whoever knows the URL can make keys up: such hits say so, of a large body only the beginning is scanned, and the
// endpoint opens 20 findings a day. What is beyond is counted in one finding, with one row a minute.
func TestUnverifiedEventsAreBounded(t *testing.T) {
	w := newWorld(t)
	var events []*event.Event
	for i := range 50 {
		e := received(leakedKey(i))
		e.ID, e.Verdict = eventAt(start.Add(time.Duration(i)*time.Second)), event.VerdictUnverified
		events = append(events, e)
	}
	w.scan(events[:30]...)
	w.scan(events[30:]...)
	w.scan(events...)
	findings, floods := map[string]bool{}, 0
	for _, h := range w.Hits() {
		if !h.Unverified {
			t.Errorf("%+v", h)
		}
		if h.Rule == finding.RuleFlood {
			floods++
			continue
		}
		findings[h.Finding] = true
	}
	if len(findings) != maxNewUnverified || floods != 1 {
		t.Errorf("%d findings and %d rows of the flood", len(findings), floods)
	}
	w.Records = nil
	large := received(strings.Repeat(" ", maxUnverified) + leakedKey(99))
	large.Verdict = event.VerdictObserved
	w.scan(large)
	is.Equal(t, len(w.Records), 0, "records of the end of a large body")
}

// Verified events have a bound of their own, which unverified ones do not use up; the account's room counts too. Our
// own API keys are outside of all bounds.
func TestVerifiedEventsAreBounded(t *testing.T) {
	w := newWorld(t)
	own := apikey.New()
	w.AddKey(own, &config.Key{ID: "key_1"})
	var events []*event.Event
	for i := range maxNewVerified + 10 {
		events = append(events, received(leakedKey(i)))
		events[i].ID = eventAt(start.Add(time.Duration(i) * time.Millisecond))
	}
	w.scan(events...)
	count := func() (n int) {
		for _, h := range w.Hits() {
			if h.Rule != finding.RuleFlood {
				n++
			}
		}
		return n
	}
	is.Equal(t, count(), maxNewVerified, "findings")
	w.Records, w.room = nil, 0
	other := received(own + " " + leakedKey(1000))
	other.Endpoint = "ep_2"
	w.scan(other)
	all := w.Hits()
	if len(all) != 2 || all[0].KeyID != "key_1" || all[0].Severity != finding.Critical ||
		all[1].Rule != finding.RuleFlood {
		t.Errorf("%+v", all)
	}
}

// One event makes a bounded number of records, and counts the others.
func TestHitsOfAnEventAreBounded(t *testing.T) {
	w := newWorld(t)
	var body strings.Builder
	for i := range 2 * maxMatches {
		body.WriteString(leakedKey(i) + "\n")
	}
	w.scan(received(body.String()))
	all := w.Hits()
	last := all[len(all)-1]
	if len(all) != maxRecords+1 || last.Rule != finding.RuleFlood || last.N != maxMatches-maxRecords {
		t.Errorf("%d hits, the last is %+v", len(all), last)
	}
}

// Scan returns when the log has acknowledged all hits, however often it fails before; and when its context ends.
func TestScanWaitsForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fails := 5
		w.Answer = func(*stream.Record) error {
			if fails--; fails >= 0 {
				return errors.New("the broker is away")
			}
			return nil
		}
		began := time.Now()
		w.scan(received(leakedKey(1) + " " + leakedKey(2)))
		if n, took := len(w.Hits()), time.Since(began); n != 2 || took < 2*retryAfter {
			t.Errorf("%d hits after %v", n, took)
		}
		w.Answer = func(*stream.Record) error { return errors.New("the broker is away") }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		is.ErrorIs(t, w.scanner.Scan(ctx, []*event.Event{received(leakedKey(3))}), context.DeadlineExceeded)
	})
}

// Without the keys of findings the writer goes on after a minute, and what was dropped is counted.
func TestKeysAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.KeysErr = errors.New("no keys")
		w.scan(received(leakedKey(1)))
		if got := testutil.ToFloat64(w.scanner.metrics.dropped); got != 1 || len(w.Records) != 0 {
			t.Errorf("%v dropped, %d records", got, len(w.Records))
		}
	})
}

// An event without a secret is scanned without an allocation for its body, and few for all of a flush.
func TestScanAllocatesLittle(t *testing.T) {
	w := newWorld(t)
	var events []*event.Event
	for range 100 {
		events = append(events, received(strings.Repeat(`{"id":"evt_123","amount":1200},`, 50), "User-Agent", "hook/1",
			"Content-Type", "application/json"))
	}
	if got := testing.AllocsPerRun(10, func() { w.scan(events...) }); got > 50 {
		t.Errorf("%v allocations for 100 events", got)
	}
}

// BenchmarkScan scans events as providers send them: 1 KB of JSON and a dozen headers.
func BenchmarkScan(b *testing.B) {
	w := newWorld(b)
	body := strings.Repeat(`{"id":"evt_1","object":"charge","amount":1200,"currency":"eur"},`, 16)
	var headers []string
	for i := range 12 {
		headers = append(headers, fmt.Sprint("X-Header-", i), "a value of thirty characters ..")
	}
	events := slices.Repeat([]*event.Event{received(body, headers...)}, 1000)
	for b.Loop() {
		w.scan(events...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
}
