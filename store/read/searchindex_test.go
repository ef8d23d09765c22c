package read_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/schema"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// marks returns the number of granules that ClickHouse has selected for reading since it started.
func (b *bench) marks() uint64 {
	return b.QuerySum("SELECT sum(value) FROM system.events WHERE event = 'SelectedMarks'")
}

// With the index a search finds a text at either end and beside any bytes, and skips granules without it.
func TestTextIndexSkipsGranulesAndFindsTheSame(t *testing.T) {
	b := newIndexed(t)
	w, _ := b.Writer(write.WriterConfig{})
	var records []*stream.Record
	var events []*event.Event
	bodies := []string{
		"", "needle", "NEEDLE", "xneedlex", "needl", "eedle", "nee\x00dle", "\xf0needle", "\xf0\x9f\x98needle",
		"\xffneedle\xff", "é needle", "\xc3needle", "needle\xf0", "needle\xe2\x82",
		"nee dle", "need\u212ale", "cut\xe2\x82", "Größe 42", "GRÖSSE 42", "100%_sure", `a\_b%`, `{"a":"needle"}`,
		`{"a":"\u006eeedle"}`, `{"a":"need\u006ce"}`, `{"\u0061bcd":{"b":"needle"}}`, `{"abcd":{"b":17}}`,
		`{"abcd":{"x":17},"b":17}`, `{"b":{"abcd":17}}`, `["needle"]`, strings.Repeat("x", 70_000) + "needle", "\ud7ffneedle",
		"\xed\xa0\x80needle",
		"a\u212awal\u212a", "a\u212awalk",
		`{"a":"Gr\u00f6\u00DFe 42"}`, `{"a":"GR\u00d6SSE 42"}`, `{"u":"https:\/\/example.com\/\u00e9"}`,
		`{"u":"https:\/\/example.com\/é"}`, `{"a":"M\u00fcller \u0026 S\u00d6HNE \ud83d\ude00"}`, "\xf0\\u00f6\xf0",
	}
	for i, body := range bodies {
		for range 2 { // a granule
			e := b.Event(1, func(e *event.Event) {
				e.Body = []byte(body)
				e.Header = append(e.Header,
					event.Field{Name: "X-Tag", Value: []string{"plain", "needle", "\xf0", "ab", "Größe", "a%b_c"}[i%6]})
			})
			events, records = append(events, e), append(records, e.Record())
		}
	}
	b.Produce(stream.Events, storetest.PartitionOf(1), records...)
	slices.Reverse(events)
	with := b.Reader(w)
	b.BuildIndexes(with)
	b.SearchIndex = false
	without := b.Reader(w)
	some := events[9].ID.Text(id.Event)
	var searches []event.Search
	for _, text := range []string{
		"needle", "Needle", "eedl", "needlex", "\x00dle", "nothing of it", "größe 42", "GRÖSSE 42", "é needle", "%_s", `\_b%`,
		"_b", "Tag: needle", "x-tag: ab\n", "need\u212ale", "a\u212awalk", some, some[4:], some[2:20], some[12:], "evt_", "😀",
		"\n", "xxxx",
		"\ud7ffneedle", "e\n", "json\nx-tag", "https://Example.com/É", "MÜLLER & söhne 😀", "& S", "Ö", `"GRÖSSE 42"`,
	} {
		searches = append(searches, event.Search{Text: text})
	}
	// the first line
	searches = append(searches,
		event.Search{Header: []event.HeaderMatch{{Name: "content-type", Values: []string{"application/json"}}}})
	for _, v := range []string{"needle", "plain", "Größe", "a%b_c", "nothing", "ab", "\xf0"} {
		searches = append(searches, event.Search{Header: []event.HeaderMatch{{Name: "x-tag", Values: []string{v}}}},
			event.Search{Body: []event.BodyMatch{{Members: []string{"a"}, Values: []string{v, "else"}}}})
	}
	for _, path := range []string{"abcd.b", "b", "0", "b.abcd", "abcd.x"} {
		searches = append(searches,
			event.Search{Body: []event.BodyMatch{{Members: strings.Split(path, "."), Values: []string{"needle", "17"}}}},
			event.Search{Body: []event.BodyMatch{{Members: strings.Split(path, "."), Values: []string{"needle"}}}})
	}
	const every = 4 // TestSearchAgreesWithModel searches without the index
	first := int(kit.Seed(t) % every)
	for i, s := range searches {
		var want []id.ID
		for _, e := range events {
			if matchesModel(e, &s) {
				want = append(want, e.ID)
			}
		}
		q := event.Query{Account: storetest.Account, Search: &s, Limit: 400, Since: time.Now().Add(-time.Hour)}
		if got, _, _ := allPages(t, with, q); !slices.Equal(got, want) {
			t.Errorf("%q with the index: %d events, want %d", s, len(got), len(want))
		}
		if i%every != first {
			continue
		}
		if got, _, _ := allPages(t, without, q); !slices.Equal(got, want) {
			t.Errorf("%q without the index: %d events, want %d", s, len(got), len(want))
		}
	}
	rare := event.Query{Account: storetest.Account, Search: &event.Search{Text: "nothing of it"}, Limit: 10,
		Since: time.Now().Add(-time.Hour)}
	read := func(r *read.Reader) uint64 {
		before := b.marks()
		allPages(t, r, rare)
		return b.marks() - before
	}
	if some, all := read(with), read(without); some+uint64(len(events)/2)-4 > all {
		t.Errorf("with the index %d granules are read, without it %d", some, all)
	}
}

// A migration adds or drops the index as the setting says, also after an interrupted one, and indexes older rows too.
func TestMigrationAddsAndDropsTextIndex(t *testing.T) {
	b := newBench(t)
	b.fill("3000")
	bare := b.TableDefinitions()
	cfg := schema.Config{URL: b.URL, RetentionDays: 30, SearchIndex: true}
	migrate := func(url string, on bool) error {
		cfg.URL, cfg.SearchIndex = url, on
		_, err := schema.Migrate(t.Context(), cfg)
		return err
	}
	built := func() uint64 {
		return b.QuerySum("SELECT sum(data_uncompressed_bytes) FROM system.data_skipping_indices " +
			"WHERE name = 'by_text' AND " +

			"database = currentDatabase()")
	}
	b.Exec("SYSTEM STOP MERGES events")
	if err := migrate(b.URL, true); err != nil { // it does not wait for the index
		t.Fatal(err)
	}
	b.Exec("SYSTEM START MERGES events")
	for _, on := range []bool{false, true} { // it drops an index that is still being built
		must.Do(t, migrate(b.URL, on))
	}
	storetest.Eventually(t, func() bool { return built() > 0 })
	indexed := b.TableDefinitions()
	mutations := func() uint64 {
		return b.QuerySum("SELECT count() FROM system.mutations WHERE command LIKE '%MATERIALIZE%' AND database = " +
			"currentDatabase()")
	}
	before := mutations()
	if err := migrate(b.URL, true); err != nil || mutations() != before {
		t.Errorf("the index is built again: %v", err)
	}
	must.Do(t, migrate(b.URL, false))
	is.Same(t, b.TableDefinitions(), bare)
	g := storetest.NewFaultProxy(b.Bench)
	g.SetRule(func(_ int, statement string) storetest.Fault {
		if strings.Contains(statement, "MATERIALIZE INDEX") {
			return storetest.Cut
		}
		return storetest.NoFault
	})
	if err := migrate(g.URL, true); err == nil {
		t.Error("the migration was not interrupted")
	}
	g.SetRule(nil)
	must.Do(t, migrate(g.URL, true))
	storetest.Eventually(t, func() bool { return built() > 0 })
	is.Same(t, b.TableDefinitions(), indexed)
}
