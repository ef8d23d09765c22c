package api_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestSearchFilters(t *testing.T) {
	c := newClient(t)
	get := func(query ...string) *answer {
		values := url.Values{}
		for i := 0; i < len(query); i += 2 {
			values.Add(query[i], query[i+1])
		}
		return c.do("GET", "/v1/events?"+values.Encode(), nil)
	}
	last := func() event.Query { return c.fake.queries[len(c.fake.queries)-1] }
	a := get("q", "50% of_it", "body[data.order.id]", "4,2", "body[data.order.id]", "x", "body[$.a]", "1", "header[x-tag]",
		"b, c", "status", "failed").want(200)
	want := &event.Search{
		Text: "50% of_it",
		Body: []event.BodyMatch{
			{Members: []string{"a"}, Values: []string{"1"}},
			{Members: []string{"data", "order", "id"}, Values: []string{"4,2", "x"}}},
		Header: []event.HeaderMatch{{Name: "x-tag", Values: []string{"b, c"}}},
	}
	q := last()
	if !reflect.DeepEqual(q.Search, want) || len(q.Statuses) != 1 || a.get("scanned") != 0.0 || a.get("partial") != nil {
		t.Errorf("%+v, %s", q.Search, a.raw)
	}
	if ago := time.Since(q.Since); ago < 24*time.Hour-time.Second || ago > 24*time.Hour+time.Minute || !q.Until.IsZero() {
		t.Errorf("the search covers %v to %v", q.Since, q.Until)
	}
	if a.get("warnings") != nil {
		t.Errorf("%s", a.raw)
	}
	for _, path := range []string{"/data/n", "data.o.k.*.x", "items[0].id"} {
		a := get("body["+path+"]", "1").want(200)
		if a.text("warnings.0.param") != "body["+path+"]" || !strings.Contains(a.text("warnings.0.message"), "literal") {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	get("q", "", "body[a]", "", "header[b]", "").want(200)
	if last().Search != nil || !last().Since.IsZero() {
		t.Errorf("empty filters are %+v", last().Search)
	}
	if get("q", "x", "until", "2026-03-03T00:00:00Z").want(200); last().Since.Format(
		time.RFC3339) != "2026-03-02T00:00:00Z" {
		t.Errorf("the search starts at %v", last().Since)
	}
	if a := get().want(200); a.get("scanned") != nil {
		t.Errorf("a list counts: %s", a.raw)
	}
	long := func(n int) string { return strings.Repeat("é", n) }
	var many []string
	for i := range 10 {
		many = append(many, fmt.Sprintf("body[a%d]", i), "1")
	}
	get("q", long(200)).want(200)
	get(many...).want(200)
	get("body[a]", strings.Repeat("x", 256)).want(200)
	get("q", "x", "since", "2026-01-01T00:00:00Z", "until", "2026-02-01T00:00:00Z").want(200)
	for param, query := range map[string][]string{
		"q": {"q", long(201)}, "header[z]": append([]string{"header[z]", "1"}, many...),
		"body[a]": {"body[a]", strings.Repeat("x", 257)},
		"body[]":  {"body[]", "1"}, "body": {"body", "1"}, "header": {"header", "1"}, "body[a..b]": {"body[a..b]", "1"},
		"header[a b]": {"header[a b]", "1"},
		"body[a":      {"body[a", "1"}, "q[]": {"q[]", "1"},
		"since": {"q", "x", "since", "2025-12-31T23:59:59.999Z", "until", "2026-02-01T00:00:00Z"},
		"start": {"q", "x", "start", "2026-01-01T00:00:00Z"}, "cursor": {"q", "x", "cursor", "x"},
	} {
		get(query...).wantError(400, "invalid_request", param)
	}
	get("q", "a", "q", "b").wantError(400, "invalid_request", "q")
	is.Has(t, get("quer", "x").wantError(400, "invalid_request", "quer").text("error.message"), "body")
	if text := get("statu", "x").wantError(400, "invalid_request", "statu").text("error.message"); !strings.Contains(
		text, "did you mean status?") {
		t.Errorf("%s", text)
	}
}

// Malformed input is refused with the name of the parameter, or searched for literally.
func TestSearchHostileInput(t *testing.T) {
	c := newClient(t)
	f := func(name, value, param string) {
		t.Helper()
		target := "/v1/events?" + url.Values{name: {value}}.Encode()
		if name != "q" && !strings.Contains(name, "[") {
			target += "&q=x"
		}
		if param != "" {
			c.do("GET", target, nil).wantError(400, "invalid_request", param)
			return
		}
		c.do("GET", target, nil).want(200)
		s := c.fake.queries[len(c.fake.queries)-1].Search
		values := []string{s.Text}
		for _, m := range s.Body {
			values = append(values, m.Values...)
		}
		for _, m := range s.Header {
			values = append(values, m.Values...)
		}
		if !slices.Contains(values, value) {
			t.Errorf("%s=%q searches for %q", name, value, values)
		}
	}
	for _, letters := range []string{
		"\x00", "a\x00b", "\x01\x1f\x7f", "\r\n\t", "\u202e\ufeff", "' OR 1=1 --", `\'; DROP TABLE events; --`, "{p1:String}",
		"%_\\", "?", "$1", "(a+)+$", strings.Repeat("\x00", 200),
	} {
		f("q", letters, "")
		f("body[a]", letters, "")
		if strings.ContainsAny(letters, "\x00\x01\r") {
			f("header[a]", letters, "header[a]")
		} else {
			f("header[a]", letters, "")
		}
	}
	f("q", "\xff", "q")
	f("q", "a\xc3", "q")
	f("q", strings.Repeat("\x00", 201), "q")
	f("q", strings.Repeat("x", 1<<15), "q")
	f("body[a]", "\xff", "") // a body may contain it, although it is not UTF-8
	f("body[a]", strings.Repeat("\x00", 257), "body[a]")
	f("body["+strings.Repeat("a.", 40)+"a]", "1", "body["+strings.Repeat("a.", 40)+"a]")
	f("body["+strings.Repeat("a", 257)+"]", "1", "body["+strings.Repeat("a", 192)+"…")
	for _, name := range []string{"\x00", "a\nb", "a:b", "ü", "a b", `"`, ""} {
		f("header["+name+"]", "1", "header["+name+"]")
	}
	for _, hostile := range []string{
		"\x00", "\xff", "' OR 1=1 --", "0", "-1", "99999999999999999999", "2026-01-01T00:00:00Z\x00"} {
		f("since", hostile, "since")
		f("until", hostile, "until")
		f("cursor", hostile, "cursor")
		f("status", hostile, "status")
		f("source", hostile, "source")
		f("processing", hostile, "processing")
		if strings.Trim(hostile, "123456789") != "" { // any number from 1 is valid
			f("limit", hostile, "limit")
		}
	}
	f("since", "0001-01-01T00:00:00Z", "since")
	f("from", "1970-01-01T00:00:00Z", "from")
}

func TestSearchPages(t *testing.T) {
	c := newClient(t)
	edge := must.Get(id.NewGenerator(nil).New(1))(t)
	page := event.Page{Partial: true, ResumeBefore: edge, Scanned: 12_345}
	c.fake.EventsFunc = func(context.Context, event.Query) (event.Page, error) { return page, nil }
	target := "/v1/events?q=x&since=" + time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04:05") + ".0004Z"
	a := c.do("GET", target, nil).want(200)
	first := c.fake.queries[len(c.fake.queries)-1]
	if a.get("partial") != true || a.get("scanned") != 12345.0 || len(a.get("data").([]any)) != 0 {
		t.Errorf("%s", a.raw)
	}
	cursor := a.text("next_cursor")
	page = event.Page{}
	if b := c.do("GET", target+"&cursor="+cursor, nil).want(200); b.get("partial") != nil || b.get("next_cursor") != nil {
		t.Errorf("%s", b.raw)
	}
	second := c.fake.queries[len(c.fake.queries)-1]
	if second.Before != edge || !second.Since.Equal(first.Since) {
		t.Errorf("goes on below %s since %v, not %s since %v", second.Before, second.Since, edge, first.Since)
	}
	for _, other := range []string{
		"/v1/events?q=y&cursor=" + cursor, "/v1/events?cursor=" + cursor, "/v1/events?q=x&cursor=" + cursor +
			"&cursor=" + cursor} {
		c.do("GET", other, nil).wantError(400, "invalid_request", "cursor")
	}
	// A forged cursor without a time limit searches no longer window than any other.
	forged := must.Get(base64.RawURLEncoding.DecodeString(cursor))(t)
	binary.BigEndian.PutUint64(forged[len(forged)-8:], 0)
	c.do("GET", target+"&cursor="+base64.RawURLEncoding.EncodeToString(forged), nil).want(200)
	if since := c.fake.queries[len(c.fake.queries)-1].Since; time.Since(since) > 31*24*time.Hour+time.Minute {
		t.Errorf("a forged cursor searches back to %v", since)
	}
	c.fake.EventsFunc = func(context.Context, event.Query) (event.Page, error) { return event.Page{}, event.ErrOverloaded }
	if a := c.do("GET", "/v1/events?q=x", nil).wantError(429, "rate_limited", ""); a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
