package read_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// matchesModel reports whether an event matches a search, in the simplest way.
func matchesModel(e *event.Event, s *event.Search) bool {
	low := func(text string) string { return strings.ToLower(text) }
	if s.Text != "" {
		all := []string{string(e.Body), unescapedJSON(string(e.Body)), string(event.LinesOf(e.Header)), e.ID.Text(id.Event)}
		if !slices.ContainsFunc(all, func(in string) bool { return strings.Contains(low(in), low(s.Text)) }) {
			return false
		}
	}
	for _, m := range s.Header {
		if !slices.ContainsFunc(e.Header, func(f event.Field) bool {
			return strings.EqualFold(f.Name, m.Name) && slices.Contains(m.Values, f.Value)
		}) {
			return false
		}
	}
	for _, m := range s.Body {
		if !gjson.ValidBytes(e.Body) {
			return false
		}
		at := valueAt(gjson.ParseBytes(e.Body), m.Members)
		if !at.Exists() || at.IsObject() || at.IsArray() || !slices.ContainsFunc(m.Values, func(v string) bool {
			return at.Type == gjson.String && at.Str == v || at.Type != gjson.String && at.Raw == v || at.Type == gjson.Number &&
				sameNumber(at.Raw, v)
		}) {
			return false
		}
	}
	return true
}

var jsonEscape = regexp.MustCompile(`\\(["\\/bfnrt]|u[dD][89abAB]..\\u[dD][c-fC-F]..|u[0-9a-fA-F]{4})`)

// unescapedJSON decodes the escapes that JSON encoders are known to make.
func unescapedJSON(body string) string {
	return jsonEscape.ReplaceAllStringFunc(body, func(escape string) string {
		plain, err := strconv.Unquote(`"` + strings.ReplaceAll(escape, `\/`, "/") + `"`)
		if pair, isPair := strings.CutPrefix(escape, `\u`); isPair && len(pair) > 4 {
			plain, err = gjson.Parse(`"`+escape+`"`).Str, nil
		}
		if err != nil || plain >= " " && plain < "\x7f" && !strings.Contains("\"\\/<>&'+`", plain) {
			return escape
		}
		return plain
	})
}

// sameNumber compares integers exactly and other numbers in double precision, which has no fraction beyond 2^53.
func sameNumber(a, b string) bool {
	m, whole := new(big.Int).SetString(a, 10)
	n, too := new(big.Int).SetString(b, 10)
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case whole && too:
		return m.Cmp(n) == 0
	case errX != nil || errY != nil || x != y:
		return false
	case x == 0:
		return true
	case whole && len(a) < 20:
		return m.String() == strconv.FormatFloat(y, 'f', -1, 64)
	case too && len(b) < 20:
		return n.String() == strconv.FormatFloat(x, 'f', -1, 64)
	}
	return true
}

// valueAt returns the value at a path; of members with the same name the first.
func valueAt(at gjson.Result, members []string) gjson.Result {
	for _, m := range members {
		var next gjson.Result
		n, err := strconv.Atoi(m)
		if at.IsObject() {
			at.ForEach(func(k, v gjson.Result) bool {
				if k.Str == m {
					next = v
				}
				return k.Str != m
			})
		} else if list := at.Array(); at.IsArray() && err == nil && n < len(list) {
			next = list[n]
		}
		at = next
	}
	return at
}

// produceSearchable produces events for the searches of the tests.
func produceSearchable(b *bench, rnd *rand.Rand, n int) (events []*event.Event) {
	b.Helper()
	clock := time.Now().Add(-20 * time.Hour)
	b.IDs = id.NewGenerator(func() time.Time { return clock })
	texts := []string{"Order 42", "50% off", `C:\new\table`, "a_b", "it's \"quoted\"", "Größe", "tab\there", "line\nbreak",
		"Größe & Söhne", "null", "true", ""}
	scalars := []any{42, -1, 4.5, 19.90, "42", "4.5", true, false, nil, "true", 1 << 60, []int{1}, map[string]int{"x": 1}}
	for range n {
		clock = clock.Add(time.Duration(rnd.Int64N(int64(40 * time.Hour / time.Duration(2*n)))))
		e := b.Event(rnd.IntN(3), func(e *event.Event) {
			e.Header = append(e.Header, event.Field{Name: "X-Tag", Value: texts[rnd.IntN(5)]},
				event.Field{Name: "X-Tag", Value: "b"})
			if e.Type = "order.created"; rnd.IntN(3) == 0 {
				e.Type, e.Source = "user.created", event.SourceAPI
			}
			if rnd.IntN(8) == 0 {
				e.Body = []byte("not JSON: " + texts[rnd.IntN(len(texts))])
				return
			}
			body := map[string]any{
				"note": texts[rnd.IntN(len(texts))], "n": scalars[rnd.IntN(len(scalars))],
				"list": []any{scalars[rnd.IntN(len(scalars))],
					map[string]any{"7": scalars[rnd.IntN(len(scalars))], "k'k": texts[rnd.IntN(len(texts))]}},
			}
			var err error
			if e.Body, err = json.Marshal(body); err != nil {
				b.Fatal(err)
			}
		})
		events = append(events, e)
	}
	byPartition := map[int32][]*stream.Record{}
	for _, e := range events {
		r := e.Record()
		r.Timestamp = time.Time{} // the producer would time out on old records
		byPartition[e.ID.Partition()] = append(byPartition[e.ID.Partition()], r)
	}
	for p, records := range byPartition {
		b.Produce(stream.Events, p, records...)
	}
	slices.SortFunc(events, func(a, b *event.Event) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return events
}

// allPages reads all pages of a search, and returns the number of partial pages and of scanned rows. Every page has to
// begin where the last ended.
func allPages(t testing.TB, r *read.Reader, q event.Query) (ids []id.ID, partial, scanned int) {
	t.Helper()
	for {
		page := must.Get(r.Events(t.Context(), q))(t)
		for _, row := range page.Rows {
			ids = append(ids, row.ID)
		}
		scanned += page.Scanned
		switch before := q.Before; {
		case page.Partial && page.More, len(page.Rows) > q.Limit, page.More && len(page.Rows) < q.Limit:
			t.Fatalf("%d rows, more %t, partial %t", len(page.Rows), page.More, page.Partial)
		case page.More:
			q.Before = page.Rows[len(page.Rows)-1].ID
		case page.Partial:
			partial++
			if q.Before = page.ResumeBefore; !before.IsZero() && slices.Compare(q.Before[:], before[:]) >= 0 {
				t.Fatalf("a partial page ends at %s, above %s where it began", q.Before, before)
			}
		default:
			return ids, partial, scanned
		}
	}
}

// Searches find the same events as the model, page by page, however many pages are partial.
func TestSearchAgreesWithModel(t *testing.T) {
	t.Run("without an index", func(t *testing.T) { searchAgreesWithModel(newBench(t), t) })
	if !storetest.TwoShards(t) {
		t.Run("with one", func(t *testing.T) { searchAgreesWithModel(newIndexed(t), t) })
	}
}

func searchAgreesWithModel(b *bench, t *testing.T) {
	w, _ := b.Writer(write.WriterConfig{})
	const n = 150
	rnd := rand.New(rand.NewPCG(kit.Seed(t), 11))
	events := produceSearchable(b, rnd, n)
	for i, e := range events {
		if i%4 == 0 {
			b.Produce(stream.Outcomes, e.ID.Partition(), b.Outcome(e, "dst_a", event.Delivered).Record())
		}
	}
	whole := b.ReaderWith(cluster.Config{
		URL: b.URL, RetentionDays: 30, SearchFoundBudget: time.Hour, SearchBudget: time.Hour}, w)
	b.BuildIndexes(whole)
	// With a budget of nearly zero every page is one chunk.
	hasty := b.ReaderWith(cluster.Config{
		URL: b.URL, RetentionDays: 30, SearchRows: 40, SearchBudget: time.Nanosecond}, w)
	some := events[n/2].ID.Text(id.Event)
	searches := []event.Search{
		{Text: "order 42"}, {Text: "ORDER"}, {Text: "%"}, {Text: "_"}, {Text: `\`}, {Text: `c:\\new`}, {Text: "'"},
		{Text: "größe"}, {Text: "GRÖSSE"}, {Text: "größe & SÖHNE"}, {Text: `c:\new`}, {Text: `it's "quoted"`},
		{Text: "x-tag: a_b"}, {Text: some}, {Text: strings.ToUpper(some)}, {Text: some[10:25]}, {Text: "nothing has this"},
		{Text: "evt_"}, {Text: "null"},
		{Header: []event.HeaderMatch{{Name: "x-tag", Values: []string{"50% off"}}}},
		{Header: []event.HeaderMatch{{Name: "X-TAG", Values: []string{"b"}}}},
		{Header: []event.HeaderMatch{{Name: "x-tag", Values: []string{"B", "Order 42"}}}},
		{Header: []event.HeaderMatch{{Name: "tag", Values: []string{"b"}}}},
	}
	for _, path := range []string{"n", "note", "list.0", "list.1.7", "list.1.k'k", "list", "list.2", "n.x", "none"} {
		values := [][]string{{"42"}, {"42.0"}, {"4.5", "-1"}, {"19.90"}, {"true"}, {"null"}, {"1152921504606846976"},
			{"line\nbreak"}, {`C:\new\table`}, {`it's "quoted"`, "tab\there"}, {"Größe"}}
		for range storetest.Rounds(1, 1, 3) {
			searches = append(searches,
				event.Search{Body: []event.BodyMatch{{Members: strings.Split(path, "."), Values: values[rnd.IntN(len(values))]}}})
		}
	}
	searches = append(searches,
		event.Search{Text: "order", Body: []event.BodyMatch{{Members: []string{"n"}, Values: []string{"42", "true"}}},
			Header: []event.HeaderMatch{{Name: "X-Tag", Values: []string{"b"}}}})
	if storetest.TwoShards(t) || b.SearchIndex { // these run the same statements, on two servers or with a condition more
		rnd.Shuffle(len(searches), func(i, j int) { searches[i], searches[j] = searches[j], searches[i] })
		searches = searches[:storetest.Rounds(8, 8, len(searches))]
	}
	hits := 0
	for i, s := range searches {
		q := event.Query{Account: storetest.Account, Search: &s, Limit: 20 + rnd.IntN(80),
			Since: time.Now().Add(-24 * time.Hour)}
		if i%5 == 1 {
			q.Endpoints, q.Types = []string{"ep_1"}, []string{"order.*"}
		}
		if i%5 == 2 {
			q.Statuses = []event.Status{event.Delivered}
		}
		var want []id.ID
		for j, e := range events {
			if matchesModel(e, &s) && (len(q.Endpoints) == 0 || e.Endpoint == "ep_1" && e.Type == "order.created") &&
				(len(q.Statuses) == 0 || j%4 == 0) {
				want = append(want, e.ID)
			}
		}
		hits += len(want)
		got, partial, scanned := allPages(t, whole, q)
		if !slices.Equal(got, want) || partial > 0 {
			t.Errorf("%+v: %d events, want %d; %d partial pages", s, len(got), len(want), partial)
		}
		if len(want) == 0 && len(q.Endpoints) == 0 && scanned != n {
			t.Errorf("%+v: %d rows were scanned, want %d", s, scanned, n)
		}
		if i%5 != 0 {
			continue
		}
		// A page that its first chunk fills is not partial; one that no chunk can fill is, as the rows are several chunks.
		if got, partial, _ = allPages(t, hasty, q); !slices.Equal(got, want) || partial == 0 && len(want) < q.Limit {
			t.Errorf("%+v, one chunk a page: %d events, want %d; %d partial pages", s, len(got), len(want), partial)
		}
	}
	t.Logf("%d searches have %d hits", len(searches), hits)
}

// A search with hits returns after its chunk; the next page continues for the rest.
func TestSearchReturnsHitsEarly(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	const n = 400
	var odd []id.ID
	for i := range n {
		e := b.Event(1, func(e *event.Event) {
			if e.Body = []byte(`{"word":"hay"}`); i == 100 || i == n-10 {
				e.Body = []byte(`{"word":"needle"}`)
			}
		})
		if i == 100 || i == n-10 {
			odd = append([]id.ID{e.ID}, odd...)
		}
		b.ProduceEvents(e)
	}
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30,
		SearchRows: 50, SearchFoundBudget: time.Nanosecond, SearchBudget: time.Hour}, w)
	b.WaitCaughtUp(r)
	got, partial, scanned := allPages(
		t, r, event.Query{Account: storetest.Account, Search: &event.Search{Text: "needle"}, Limit: 10,
			Since: time.Now().Add(-time.Hour)})
	// The newer one is in the first chunk.
	if !slices.Equal(got, odd) || partial != 1 || scanned != n {
		t.Errorf("%d events, %d partial pages, %d rows scanned", len(got), partial, scanned)
	}
}

func TestTwoSearchesAtATime(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	b.ProduceEvents(b.Event(1))
	q := event.Query{Account: storetest.Account, Search: &event.Search{Text: "n"}, Limit: 10}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hold := r.HoldSearches(ctx, storetest.Account)
	if _, err := r.Events(t.Context(), q); !errors.Is(err, event.ErrOverloaded) {
		t.Errorf("a third search returns %v", err)
	}
	other := q
	other.Account = "acc_2"
	if _, err := r.Events(t.Context(), other); err != nil {
		t.Errorf("another account waits: %v", err)
	}
	q.Search = nil
	if _, err := r.Events(t.Context(), q); err != nil {
		t.Errorf("a list waits: %v", err)
	}
	q.Search = other.Search
	var wg sync.WaitGroup
	wg.Go(func() {
		if page, err := r.Events(t.Context(), q); err != nil || len(page.Rows) != 1 {
			t.Errorf("a search that waited for its turn: %v, %v", page, err)
		}
	})
	hold()
	wg.Wait()
}
