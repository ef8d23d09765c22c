package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// planted holds the planted secrets by their names.
type planted map[string]string

// plant creates a random secret that no other text contains.
func (p planted) plant(what string, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	p[what] = hex.EncodeToString(b)
	return b
}

// findIn returns the names of the secrets that a text contains, in any usual encoding.
func (p planted) findIn(text string) (found []string) {
	for what, secret := range p {
		raw, err := hex.DecodeString(secret)
		if err != nil {
			panic(err)
		}
		for _, form := range []string{
			secret, string(raw), base64.StdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw)} {
			if strings.Contains(text, strings.TrimRight(form, "=")) {
				found = append(found, what)
				break
			}
		}
	}
	return found
}

// No secret of the relay or of an account's settings appears in a topic, a table, a log, a metric or an answer, whether
// events are delivered, refused by the destination or the relay, replayed, or undeliverable.
func TestPlantedSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	skipShort(t)
	secrets := planted{}
	apiKey := "rly_" + hex.EncodeToString(secrets.plant("bootstrap key", 16))
	readerKey := "rly_" + hex.EncodeToString(secrets.plant("bootstrap read key", 16))
	master := secrets.plant("master key", 32)
	signing := "whsec_" + base64.StdEncoding.EncodeToString(secrets.plant("signing secret", 32))
	header := "Bearer " + hex.EncodeToString(secrets.plant("destination header", 16))
	provider := hex.EncodeToString(secrets.plant("verification secret", 16))
	second := hex.EncodeToString(secrets.plant("second verification secret", 16))
	answer := hex.EncodeToString(secrets.plant("cookie of an answer", 16))
	slack := hex.EncodeToString(secrets.plant("URL of a Slack channel", 16))
	hook := hex.EncodeToString(secrets.plant("URL of an alert webhook", 16))
	hookSecret := "whsec_" + base64.StdEncoding.EncodeToString(secrets.plant("secret of an alert webhook", 32))
	mailPassword := hex.EncodeToString(secrets.plant("password of the mail server", 16))

	dest := newSink(t, nil)
	dest.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session="+answer)
		if r.URL.Path == "/refuses" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	log, store := startEngine(t, "kafka"), startEngine(t, "clickhouse")
	c := newCluster(t, engines{log.url, sharedEngine(t, "redis"), store.url}, "secrets",
		"RELAY_MASTER_KEYS=planted:"+base64.StdEncoding.EncodeToString(master), "RELAY_BOOTSTRAP_KEY="+apiKey,
		"RELAY_BOOTSTRAP_READ_KEY="+readerKey, "RELAY_ADMIN_LISTEN=127.0.0.1:0",
		"RELAY_SMTP_URL=smtp://relay:"+mailPassword+"@127.0.0.1:1?from=relay@example.com")
	c.migrate()
	n := c.node("a")
	n.key = apiKey
	n.start()

	destination := func(url string) map[string]any {
		return map[string]any{"url": url, "headers": map[string]any{"Authorization": header},
			"signing": map[string]any{"secret": signing}}
	}
	// Alerts of the failures below use these channels. Only the last one answers.
	n.must(http.StatusOK, "PATCH", "/v1/alerts", map[string]any{
		"email": "ops@example.com", "slack_webhook_url": "https://127.0.0.1:1/services/" + slack,
		"channels": map[string]any{"webhook": map[string]any{"url": dest.URL + "/hook?token=" + hook, "secret": hookSecret}},
		"rules":    map[string]any{"consecutive_failures": map[string]any{"threshold": 1}},
	})
	// This text may be shown to keys with the scope read_write only. It is stored with the attempts.
	capabilities := planted{}
	hidden := dest.URL + "/hooks/1" + hex.EncodeToString(capabilities.plant("path of a destination", 16)) +
		"?channel=" + hex.EncodeToString(capabilities.plant("query of a destination", 16))
	made := n.must(http.StatusCreated, "POST", "/v1/endpoints", map[string]any{
		"provider": "hmac",
		"verification": map[string]any{
			"type": "hmac", "secrets": []any{provider, second}, "header": "X-Signature", "mode": "enforce"},
		"destinations": []any{destination(hidden), destination(dest.URL + "/refuses"),
			destination("https://127.0.0.1:1/nobody"), destination("https://10.0.0.1.nip.invalid/")},
	})
	ep, in := made["id"].(string), made["ingest_url"].(string)
	token := in[strings.LastIndex(in, "/")+1:]
	delivered := n.send(ep, 1)
	// This text is no secret and is stored as it arrived: finding it shows that the search works.
	decoy := planted{}
	n.post(in, map[string]string{"X-Signature": hex.EncodeToString(decoy.plant("decoy", 16))}, []byte(`{"n":2}`))
	dest.Config.Handler = nil
	n.must(http.StatusOK, "POST", "/v1/events/"+delivered+"/replay", map[string]any{})
	dst := made["destinations"].([]any)[0].(map[string]any)["id"].(string)
	rotated := n.must(http.StatusOK, "POST", "/v1/endpoints/"+ep+"/destinations/"+dst+"/rotate_secret", map[string]any{})
	fresh, _ := strings.CutPrefix(rotated["signing"].(map[string]any)["secret"].(string), "whsec_")
	raw := must.Get(base64.StdEncoding.DecodeString(fresh))(t)
	secrets["rotated signing secret"] = hex.EncodeToString(raw)
	eventually(t, arrival, func() string {
		e := n.event(delivered)
		if attempts := e["attempts"].([]any); len(attempts) < 5 {
			return fmt.Sprintf("%d attempts are recorded, want one for each destination and a replayed one", len(attempts))
		}
		return ""
	})

	leaked := n.leakEverywhere(hex.EncodeToString(secrets.plant("secret in lines of a log", 16)))
	tested := n.must(http.StatusOK, "POST", "/v1/alerts/test", nil)
	if tested["failed"] != 3.0 { // the last channel answers 404 by now
		t.Errorf("%v", tested)
	}

	seen := map[string]bool{}
	check := func(where, text string) {
		t.Helper()
		if len(decoy.findIn(text)) > 0 {
			seen[strings.Fields(where)[0]] = true
		}
		for _, what := range secrets.findIn(text) {
			t.Errorf("the %s appears in %s", what, where)
		}
	}
	check("the test of the alert channels", fmt.Sprint(tested))
	for _, path := range append(leaked,
		"/v1/alerts", "/v1/endpoints", "/v1/endpoints/"+ep, "/v1/events", "/v1/events/"+delivered, "/v1/me", "/v1/nope") {
		_, got, h := n.call("GET", path, nil)
		check("GET "+path, fmt.Sprint(got, h))
	}
	n.key = readerKey
	for _, path := range []string{
		"/v1/endpoints", "/v1/endpoints/" + ep, "/v1/events", "/v1/events/" + delivered, "/v1/events/" + delivered +
			"/attempts", "/v1/audit",
	} {
		text := fmt.Sprint(n.must(http.StatusOK, "GET", path, nil))
		check("GET "+path+" with a reading key", text)
		for _, what := range capabilities.findIn(text) {
			t.Errorf("the %s appears in GET %s with a read key", what, path)
		}
		is.Lacks(t, text, token, "the token of the ingest URL appears in GET %s with a read key", path)
	}
	n.key = apiKey
	check("the metrics", n.admin("/metrics"))
	if err := n.stop(15); err != nil { // SIGTERM, so that everything is flushed
		t.Fatal(err)
	}
	records := everyRecord(t, log.url, check)
	rows := everyRow(t, store.url, strings.TrimSuffix(c.prefix, "."), check)
	check("the log of the node", n.logs.String())
	check("the log of the store", store.logs.String())
	for _, what := range capabilities.findIn(n.logs.String()) {
		t.Errorf("the %s appears in the log of the node", what)
	}
	is.Lacks(t, n.logs.String(), token, "the token of the ingest URL appears in the log of the node")
	t.Logf("searched for %d secrets in %d records and %d rows", len(secrets), records, rows)
	if !seen["topic"] || !seen["table"] {
		t.Errorf("the text that is no secret is found in %v only: the test searches in the wrong place", seen)
	}
}

// everyRecord calls check for every record of every topic and returns their number.
func everyRecord(t *testing.T, brokers string, check func(where, text string)) (n int) {
	t.Helper()
	cl := must.Get(kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeRegex(), kgo.ConsumeTopics(".*")))(t)
	defer cl.Close()
	ends := must.Get(kadm.NewClient(cl).ListEndOffsets(t.Context()))(t)
	want := 0
	ends.Each(func(o kadm.ListedOffset) { want += int(o.Offset) })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n < want && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			n++
			text := string(r.Key) + "\n" + string(r.Value)
			for _, h := range r.Headers {
				text += "\n" + h.Key + ": " + string(h.Value)
			}
			check(fmt.Sprintf("topic %s, offset %d", r.Topic, r.Offset), text)
		})
	}
	if n < want {
		t.Errorf("read %d records of %d", n, want)
	}
	return n
}

// everyRow calls check for every row of every table and returns their number.
func everyRow(t *testing.T, address, database string, check func(where, text string)) (n int) {
	t.Helper()
	conn, err := clickhouse.Open(
		&clickhouse.Options{Protocol: clickhouse.HTTP, Addr: []string{address}, Auth: clickhouse.Auth{Database: database}})
	must.Do(t, err)
	defer func() { err = errors.Join(err, conn.Close()) }()
	tables := must.Get(conn.Query(
		t.Context(), "SELECT name FROM system.tables WHERE database = $1 AND engine LIKE '%MergeTree'", database))(t)
	var names []string
	for tables.Next() {
		var name string
		must.Do(t, tables.Scan(&name))
		names = append(names, name)
	}
	if err := errors.Join(tables.Err(), tables.Close()); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, name := range names {
		rows := must.Get(conn.Query(t.Context(), "SELECT toString(tuple(*)) FROM "+name))(t)
		for rows.Next() {
			var text string
			must.Do(t, rows.Scan(&text))
			n++
			check("table "+name, text)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return n
}
