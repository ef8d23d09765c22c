package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
)

// newIndexed is a bench with the text index. Its granules have two events, so that whatever the index says wrongly is seen.
func newIndexed(t testing.TB) *bench {
	t.Helper()
	b := newBench(t)
	for url := range strings.SplitSeq(b.url, ",") {
		shard := *b
		shard.url = url
		statements, err := store.DDL(store.MigrateConfig{URL: shard.anew(), RetentionDays: 30, SearchIndex: true})
		if err != nil {
			t.Fatal(err)
		}
		db := shard.database()
		shard.url = strings.TrimSuffix(url, db) + "default"
		for _, s := range statements {
			if strings.HasPrefix(s, "CREATE DATABASE") || strings.HasPrefix(s, "CREATE TABLE IF NOT EXISTS "+db+".events (") {
				shard.exec(strings.Replace(s, "index_granularity = 1024", "index_granularity = 2", 1))
			}
		}
	}
	cfg := store.MigrateConfig{URL: b.url, RetentionDays: 30, SearchIndex: true}
	if _, err := store.MigrateTables(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	b.indexed = true
	return b
}

// indexes waits until all events are stored, and has them merged, which makes their indexes.
func (b *bench) indexes(r *store.Reader) {
	b.Helper()
	b.caughtUp(r)
	b.exec("OPTIMIZE TABLE events FINAL")
}

// marks are the granules that ClickHouse has chosen for reading, ever.
func (b *bench) marks() uint64 {
	return b.query("SELECT sum(value) FROM system.events WHERE event = 'SelectedMarks'")
}

// The index finds what stands at any edge, however the bytes around it look, and passes over what has nothing of it.
func TestTextIndex(t *testing.T) {
	b := newIndexed(t)
	w, _ := b.writer(store.WriterConfig{})
	var records []*stream.Record
	var events []*event.Event
	bodies := []string{
		"", "needle", "NEEDLE", "xneedlex", "needl", "eedle", "nee\x00dle", "\xf0needle", "\xf0\x9f\x98needle", "\xffneedle\xff", "é needle", "\xc3needle", "needle\xf0", "needle\xe2\x82",
		"nee dle", "need\u212ale", "cut\xe2\x82", "Größe 42", "GRÖSSE 42", "100%_sure", `a\_b%`, `{"a":"needle"}`, `{"a":"\u006eeedle"}`, `{"a":"need\u006ce"}`, `{"\u0061bcd":{"b":"needle"}}`, `{"abcd":{"b":17}}`,
		`{"abcd":{"x":17},"b":17}`, `{"b":{"abcd":17}}`, `["needle"]`, strings.Repeat("x", 70_000) + "needle", "\ud7ffneedle", "\xed\xa0\x80needle",
		"a\u212awal\u212a", "a\u212awalk",
	}
	for i, body := range bodies {
		for range 4 { // as many granules
			e := b.event(1, func(e *event.Event) {
				e.Body = []byte(body)
				e.Header = append(e.Header, event.Field{Name: "X-Tag", Value: []string{"plain", "needle", "\xf0", "ab", "Größe", "a%b_c"}[i%6]})
			})
			events, records = append(events, e), append(records, e.Record())
		}
	}
	b.put(stream.Events, partitionOf(1), records...)
	slices.Reverse(events)
	with := b.reader(w)
	b.indexes(with)
	b.indexed = false
	without := b.reader(w)
	some := events[9].ID.Text(id.Event)
	var searches []event.Search
	for _, text := range []string{
		"needle", "Needle", "eedl", "needlex", "\x00dle", "nothing of it", "größe 42", "GRÖSSE 42", "é needle", "%_s", `\_b%`, "_b", "Tag: needle", "x-tag: ab\n", "need\u212ale", "a\u212awalk", some, some[4:], some[2:20], some[12:], "evt_", "😀", "\n", "xxxx",
		"\ud7ffneedle", "e\n", "json\nx-tag",
	} {
		searches = append(searches, event.Search{Text: text})
	}
	searches = append(searches, event.Search{Header: []event.HeaderMatch{{Name: "content-type", Values: []string{"application/json"}}}}) // the first line
	for _, v := range []string{"needle", "plain", "Größe", "a%b_c", "nothing", "ab", "\xf0"} {
		searches = append(searches, event.Search{Header: []event.HeaderMatch{{Name: "x-tag", Values: []string{v}}}}, event.Search{Body: []event.BodyMatch{{Members: []string{"a"}, Values: []string{v, "else"}}}})
	}
	for _, path := range []string{"abcd.b", "b", "0", "b.abcd", "abcd.x"} {
		searches = append(searches, event.Search{Body: []event.BodyMatch{{Members: strings.Split(path, "."), Values: []string{"needle", "17"}}}}, event.Search{Body: []event.BodyMatch{{Members: strings.Split(path, "."), Values: []string{"needle"}}}})
	}
	for _, s := range searches {
		var want []id.ID
		for _, e := range events {
			if found(e, &s) {
				want = append(want, e.ID)
			}
		}
		q := event.Query{Account: account, Search: &s, Limit: 400, Since: time.Now().Add(-time.Hour)}
		for r, how := range map[*store.Reader]string{with: "with", without: "without"} {
			if got, _, _ := follow(t, r, q); !slices.Equal(got, want) {
				t.Errorf("%q %s the index: %d events, want %d", s, how, len(got), len(want))
			}
		}
	}
	rare := event.Query{Account: account, Search: &event.Search{Text: "nothing of it"}, Limit: 10, Since: time.Now().Add(-time.Hour)}
	read := func(r *store.Reader) uint64 {
		before := b.marks()
		follow(t, r, rare)
		return b.marks() - before
	}
	if some, all := read(with), read(without); some+uint64(len(events)/2)-4 > all {
		t.Errorf("with the index %d granules are read, without it %d", some, all)
	}
}

// The index comes and goes with the setting, also when it was broken off, and what was stored before is in it too.
func TestTextIndexComesAndGoes(t *testing.T) {
	b := newBench(t)
	b.fill("3000")
	bare := b.tables()
	cfg := store.MigrateConfig{URL: b.url, RetentionDays: 30, SearchIndex: true}
	migrate := func(url string, on bool) error {
		cfg.URL, cfg.SearchIndex = url, on
		_, err := store.MigrateTables(t.Context(), cfg)
		return err
	}
	built := func() uint64 {
		return b.query("SELECT sum(data_uncompressed_bytes) FROM system.data_skipping_indices WHERE name = 'by_text' AND database = currentDatabase()")
	}
	b.exec("SYSTEM STOP MERGES events")
	if err := migrate(b.url, true); err != nil { // it does not wait
		t.Fatal(err)
	}
	b.exec("SYSTEM START MERGES events")
	eventually(t, func() bool { return built() > 0 })
	indexed := b.tables()
	mutations := func() uint64 {
		return b.query("SELECT count() FROM system.mutations WHERE command LIKE '%MATERIALIZE%' AND database = currentDatabase()")
	}
	before := mutations()
	if err := migrate(b.url, true); err != nil || mutations() != before {
		t.Errorf("the index is built again: %v", err)
	}
	if err := migrate(b.url, false); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(bare, b.tables()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g := newGate(b)
	g.set(func(_ int, statement string) fault {
		if strings.Contains(statement, "MATERIALIZE INDEX") {
			return cut
		}
		return sound
	})
	if err := migrate(g.url, true); err == nil {
		t.Error("nothing was broken off")
	}
	g.set(nil)
	if err := migrate(g.url, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return built() > 0 })
	if diff := gocmp.Diff(indexed, b.tables()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
