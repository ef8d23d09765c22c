package dashboard

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

const (
	eventPath1 = ui.EventsPath + "/evt_1"
	eventJSON  = `{"id":"evt_1","endpoint_id":"ep_1","type":"order.<b>","status":"retrying","source":"provider",
	"processing":"processed","size_bytes":27,"received_at":"2026-08-21T22:20:00.000Z","expires_at":"2026-09-20T22:20:00Z",
	"reason":null,
	"why":"1 of 2 destinations: attempt 1 failed (HTTP 503); next attempt at 2026-08-21T22:30:00.000Z",
	"verification":"verified","method":"POST","query":"a=<1>",
	"content_type":"application/json","remote_ip":"203.0.113.9","idempotency_key":null,"duplicate_of":null,
	"payload_erased_at":null,"headers_raw":[["X-Evil","<script>alert(1)</script>"],["Host","h"]],
	"body":"{\"a\":\"<i>\",\"n\":1.50}","body_encoding":"utf8","attempts_truncated":true,
	"attempts":[{"id":"att_1","destination_id":"dst_1","attempt_number":1,"trigger":"initial","status":"failed",
	"response_status":503,"error_code":"http_status","error_message":"answered <503>",
	"started_at":"2026-08-21T22:20:00.010Z",
	"duration_ms":1200,"ttfb_ms":5,"retry_after_seconds":120,"next_attempt_at":"2026-08-21T22:30:00Z",
	"request":{"url":"https://orders.example.com/h","method":"POST","headers":{"X-A":"1"}},
	"response":{"headers":{"Server":"<edge>"},"body":"upstream <down>","body_encoding":"utf8","truncated":true}}],
	"deliveries":[{"id":"dlv_1","destination_id":"dst_1","status":"retrying","reason":null,"why":"next in 6 min",
	"attempts":1,"next_attempt_at":"2026-08-21T22:30:00Z"},
	{"id":"dlv_2","destination_id":"dst_2","status":"skipped","reason":"filtered","why":"the filter does not match",
	"attempts":0,"next_attempt_at":null}],
	"receipt":{"state":"processed","reference":"order-9","details":"2 <lines>","updated_at":"2026-08-21T22:20:02Z"}}`
)

func eventRig(t *testing.T, change ...string) *rig {
	r := newRig(t)
	r.api.on("GET /v1/events/evt_1", 200, strings.NewReplacer(change...).Replace(eventJSON))
	r.api.on("GET /v1/endpoints/ep_1", 200, `{"id":"ep_1","name":"payments","verification":{"type":"hmac"},
		"retry_policy":{"max_attempts":10},"destinations":[
		{"id":"dst_1","url":"https://orders.example.com/h","name":"orders","enabled":true},
		{"id":"dst_3","url":"https://new.example.com/a/","name":null,"enabled":true}]}`)
	return r
}

func TestEventPageTellsTheWholeStory(t *testing.T) {
	page := eventRig(t).signedIn().get(eventPath1).want(200,
		"Retrying: <b>orders</b> answered 503 in 1 of 10\u00a0attempts. The next is at ", // why, first
		"<time class=\"nb\" datetime=\"2026-08-21T22:30:00.000Z\" title=\"2026-08-21 22:30:00.000\u00a0UTC\">22:30:00<",
		"<b>dst_2</b>: the filter does not match. ", "order.&lt;b&gt;", "payments",
		"&#43;1.2\u00a0s", "orders retrying", "dst_2 skipped: filtered", "application reports processed", "next attempt",
		"503 Service Unavailable", "1,200\u00a0ms", "answered &lt;503&gt;", "asked to wait 120\u00a0s", // attempts
		"POST https://orders.example.com/h", "X-A: 1", "curl -X &#39;POST&#39; &#39;https://orders.",
		"upstream &lt;down&gt;", "(cut)", eventPath1+"/attempts",
		"No request was made. the filter does not match",
		`<span class="k">&#34;n&#34;</span>: <a class="d" href="/app/events?body_path=n&amp;body_value=1.50&amp;since=7d"`,
		"&lt;i&gt;", // body
		"&lt;script&gt;alert(1)&lt;/script&gt;", "?a=&lt;1&gt;", "203.0.113.9",
		"order-9", "2 &lt;lines&gt;", `data-live="/app/events/evt_1"`, "?signature=1",
		`value="dst_3"`, "new.example.com/a<") // a replay can go to a destination that was added later
	is.Lacks(t, page.body, "<script>alert", "a header is markup")
}

// While an event is open, all that the page says of its state follows it at once, so that no part contradicts another.
func TestOpenEventIsFollowedAsAWhole(t *testing.T) {
	r := eventRig(t)
	r.now = time.Date(2026, 8, 21, 22, 30, 2, 0, time.UTC) // the next attempt is due
	b := r.signedIn()
	ids := []string{"why", "history", "deliveries", "receipt"}
	part := b.get(eventPath1, "Relay-Part", strings.Join(ids, " ")).want(200, "orders retrying",
		"orders, next attempt due now", "2 destinations, 1 attempt", `<details id="att_1" open>`, "order-9",
		"UTC\">22:30:00</time>, <time data-relative=\"due\"")
	if n := strings.Count(part.body, ">due now</time>"); n != 2 || strings.Contains(part.body, `id="h-b"`) {
		t.Errorf("%d times due now, want 2: %s", n, part.body)
	}
	page := b.get(eventPath1).want(200, "<noscript>")
	done := eventRig(t, `"status":"retrying","source"`, `"status":"failed","source"`).signedIn().get(eventPath1).want(200)
	for _, id := range ids {
		for name, a := range map[string]*answer{"the page": page, "the part": part, "a page of what has ended": done} {
			tag := regexp.MustCompile(`<[a-z]+ class="[^"]*" id="` + id + `"[^>]*>`).FindString(a.body)
			if live := strings.Contains(tag, `data-live="`+eventPath1+`"`); live != (a != done) || tag == "" {
				t.Errorf("%s has %s", name, tag)
			}
		}
	}
}

// Without retries the only attempt is the last one, whatever max_attempts says for the other strategies.
func TestOnlyAttemptWithoutRetries(t *testing.T) {
	r := eventRig(t, `"status":"retrying"`, `"status":"failed"`)
	r.api.on("GET /v1/endpoints/ep_1", 200, `{"id":"ep_1","name":"payments","verification":{"type":"hmac"},
		"retry_policy":{"strategy":"none","max_attempts":10},"destinations":[]}`)
	r.signedIn().get(eventPath1).want(200, "answered 503 in 1 of 1\u00a0attempt.")
}

// A long timeline is a list: side by side its steps would overlap.
func TestLongTimelineIsVertical(t *testing.T) {
	const other = `{"id":"dlv_2","destination_id":"dst_2","status":"skipped"`
	eventRig(t).signedIn().get(eventPath1).want(200, `<ol class="sched pad">`)
	eventRig(t, other, strings.Repeat(`{"id":"dlv_3","destination_id":"dst_3","status":"held"},`, 6)+other).signedIn().
		get(eventPath1).want(200, `<ol class="sched pad v">`)
}

func TestBodyViews(t *testing.T) {
	b := eventRig(t).signedIn()
	b.get(eventPath1+"?body=raw").want(200, "{&#34;a&#34;:&#34;&lt;i&gt;&#34;,&#34;n&#34;:1.50}", "Tree", "Hex")
	b.get(eventPath1+"?body=hex").want(200, "00000000  7b 22 61 22", `class="code x"`)
	file := b.get(eventPath1 + "/body")
	if file.body != `{"a":"<i>","n":1.50}` || file.header.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(file.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%v %q", file.header, file.body)
	}
	b = eventRig(t, `"body":"{\"a\":\"<i>\",\"n\":1.50}","body_encoding":"utf8"`,
		`"body":"AP8=","body_encoding":"base64"`).signedIn()
	if page := b.get(eventPath1).want(200, "00000000  00 ff"); strings.Contains(page.body, "Send it to a local server") {
		t.Error("a command has bytes that are not text")
	}
	is.Equal(t, b.get(eventPath1+"/body").body, "\x00\xff")
}

// The body of an event is what destinations get only if the endpoint has no transformation.
func TestReceivedBodySaysWhetherItIsDelivered(t *testing.T) {
	for source, texts := range map[string][2]string{
		"provider": {"as the provider sent it, indented for reading<", "as the provider sent it, indented for reading; "},
		"api":      {"as it is delivered, indented for reading<", "as it was sent, indented for reading; "},
	} {
		r := eventRig(t, `"source":"provider"`, `"source":"`+source+`"`)
		b := r.signedIn()
		b.get(eventPath1).want(200, texts[0])
		r.api.on("GET /v1/endpoints/ep_1", 200, `{"id":"ep_1","name":"payments","verification":{"type":"hmac"},
			"transformation":{"ops":[]}}`)
		b.get(eventPath1).want(200, texts[1]+"destinations get the transformed body<")
	}
}

// Bytes of a header that are not UTF-8 are shown, and the command for a local server has them.
func TestHeaderBytesAreShown(t *testing.T) {
	b := eventRig(t, `["Host","h"]]`, `["X-High","Zo\ufffd"]],"headers_base64":[null,"Wm/r"]`).signedIn()
	b.get(eventPath1).want(200, `<dt>X-High</dt><dd>Zo\xeb</dd>`, `-H $&#39;X-High: Zo\<span class="nb">353&#39;`)
}

func TestSignatureIsExplained(t *testing.T) {
	r := eventRig(t, `"verification":"verified"`, `"verification":"rejected"`, `"status":"retrying","source"`,
		`"status":"rejected","source"`)
	r.api.on("GET /v1/events/evt_1/signature", 200, `{"scheme":"hmac","verdict":"rejected","reason":"signature_mismatch",
		"headers":[{"name":"X-Signature","values":["<sig>"]}],"signed_content":"a b\r\n","signed_content_encoding":"utf8",
		"signed_size_bytes":5,"received_prefix":"deadbeef","secrets":[{"last4":"9f3c","expected_prefix":"cafebabe",
		"matches":false}],"timestamp":"17","age_seconds":400,"tolerance_seconds":300,
		"findings":[{"code":"secret_newline","message":"The secret ends with a line feed."}]}`)
	b := r.signedIn()
	page := b.get(eventPath1).want(200, "The secret ends with a line feed.",
		`a·b<span class="tag">CR</span><span class="tag">LF</span>`, "deadbeef…", "cafebabe…", "9f3c",
		"&lt;sig&gt;", "400&nbsp;s old", "300&nbsp;s are accepted", "signature_mismatch",
		`once its signature is accepted. The secret ends with a line feed. <a href="/app/endpoints/ep_1/settings">Secret of`)
	if strings.Contains(page.main(), "/replay") || strings.Contains(page.main(), "dlg-replay") {
		t.Error("the page offers a replay that is refused")
	}
	r.api.on("GET /v1/events/evt_1/signature", 200, `{"scheme":"stripe","verdict":"rejected",
		"reason":"signature_mismatch","findings":[{"code":"no_cause","message":"No usual mistake."}]}`)
	b.get(eventPath1).want(200, "No usual mistake. The secret usually belongs to another destination")
	r.api.on("GET /v1/events/evt_1/signature", 200, `{"scheme":"hmac","verdict":"rejected","reason":"signature_missing"}`)
	b.get(eventPath1).want(200, `<a href="/app/endpoints/ep_1/settings">How signatures are verified</a>`)
	r.api.on("GET /v1/events/evt_1/signature", 200, `{"scheme":"hmac","verdict":"verified",
		"findings":[{"code":"valid_for_replay","message":"Replay it."}]}`)
	b.get(eventPath1).want(200, "Replay it.", `popovertarget="dlg-replay"`, "/v1/events/evt_1/replay")
	r.api.on("GET /v1/events/evt_1/signature", 400, `{"error":{"type":"invalid_state","message":"the body was cut"}}`)
	b.get(eventPath1).want(200, "The body was cut.")
}

func TestReplayAndErase(t *testing.T) {
	r := eventRig(t)
	b := r.signedIn()
	form := url.Values{"nonce": {b.get(eventPath1).nonceOf(eventPath1 + "/replay")}, "destination_id": {"dst_3"}}
	r.api.on("POST /v1/events/evt_1/replay", 200, `{"queued":1}`)
	b.post(eventPath1+"/replay", form).wantRedirect(eventPath1)
	if c := r.api.calls[len(r.api.calls)-1]; c.Key != form.Get("nonce") || c.Body != `{"destination_id":["dst_3"]}` {
		t.Errorf("%+v", c)
	}
	b.get(eventPath1).want(200, "Queued one delivery.")

	before := len(r.api.calls)
	b.post(eventPath1+"/erase", url.Values{"confirm": {"yes"}}).want(400, "Nothing was erased")
	is.Equal(t, len(r.api.calls), before, "erased without the word")
	r.api.on("DELETE /v1/events/evt_1/payload", 200, `{}`)
	b.post(eventPath1+"/erase", url.Values{"confirm": {"erase"}}).wantRedirect(eventPath1)

	r.people.person.Scope = config.Read
	if page := b.get(eventPath1).want(200); strings.Contains(page.main(), "<form") {
		t.Error("a reader sees a form")
	}
}

// The question before a replay says how many destinations get the event, or which one, before the click.
func TestReplayIsAskedWithItsDestinations(t *testing.T) {
	r := eventRig(t)
	b := r.signedIn()
	// What the event is on its way to is not chosen; a destination that it was not sent to is.
	page := b.get(eventPath1).want(200, `<button class="b go">Replay to new.example.com/a</button>`)
	for dest, chosen := range map[string]bool{"dst_1": false, "dst_3": true} {
		box := regexp.MustCompile(`<input type="checkbox" name="destination_id" value="` + dest + `"[^>]*>`).
			FindString(page.main())
		if box == "" || strings.Contains(box, " checked") != chosen {
			t.Errorf("%s: %q, want chosen %v", dest, box, chosen)
		}
	}
	form := url.Values{"nonce": {page.nonceOf(eventPath1 + "/replay")}}
	b.post(eventPath1+"/replay", form).want(400, "choose at least one destination")
	for destinations, want := range map[string]string{
		`{"id":"dst_1","url":"https://orders.example.com/h","name":"orders","enabled":true}`: `<button class="b go">` +
			"Replay to orders</button>",
		`{"id":"dst_1","url":"https://orders.example.com/h","enabled":false}`: "No destination is enabled",
	} {
		r.api.on("GET /v1/endpoints/ep_1", 200, `{"id":"ep_1","name":"payments","destinations":[`+destinations+`]}`)
		if page := b.get(eventPath1).want(200, want); strings.Contains(page.main(), "All that are enabled") {
			t.Errorf("a choice of one destination: %s", page.main())
		}
	}
}

// Nothing of an erased event is offered that the API refuses, nor announced that is not done.
func TestErasedEvent(t *testing.T) {
	const why = "the payload was erased: nothing more is sent; it ends as failed at 2026-08-21T22:30:00.000Z"
	page := eventRig(t, `"payload_erased_at":null`, `"payload_erased_at":"2026-08-21T22:21:00Z"`,
		`"next in 6 min"`, `"`+why+`","why_details":{"code":"payload_erased","until":"2026-08-21T22:30:00.000Z"}`).
		signedIn().get(eventPath1).want(200, "The payload was erased",
		"answered 503 in 1 of 10\u00a0attempts; the payload was erased: nothing more is sent; it ends as failed at ")
	for _, text := range []string{"/replay", "dlg-", "ext attempt", "The next is", "as the provider sent it"} {
		is.Lacks(t, page.main(), text, "the page has %q", text)
	}
}

// A delivery that gets no attempt at its time, as the API says, has none on the page.
func TestHaltedDeliveryAnnouncesNoAttempt(t *testing.T) {
	const halt = "the destination is paused: nothing is sent until it is unpaused"
	page := eventRig(t, `"next in 6 min"`, `"attempt 1 failed (HTTP 503); `+halt+
		`","why_details":{"code":"destination_paused"}`).signedIn().get(eventPath1).want(200,
		"Retrying: <b>orders</b> answered 503 in 1 of 10\u00a0attempts; "+halt+".")
	for _, text := range []string{"ext attempt", "The next is"} {
		is.Lacks(t, page.main(), text, "the page has %q", text)
	}
}

func TestEventOfADeletedEndpoint(t *testing.T) {
	r := eventRig(t)
	r.api.on("GET /v1/endpoints/ep_1", 404, `{"error":{"type":"not_found","message":"gone"}}`)
	b := r.signedIn()
	if page := b.get(eventPath1).want(200, "deleted", "dst_1"); strings.Contains(page.main(), "replay") {
		t.Error("an event of a deleted endpoint can be replayed")
	}
	b.get(ui.EventsPath+"/evt_2").want(http.StatusNotFound, "no such event")
}

func TestAllAttempts(t *testing.T) {
	r := eventRig(t)
	r.api.on("GET /v1/events/evt_1/attempts", 200, `{"data":[{"id":"att_1","destination_id":"dst_1","attempt_number":7,
		"status":"succeeded","response_status":200,"started_at":"2026-08-21T22:20:00.010Z",
		"request":{"url":"https://h","method":"POST","headers":{}}}],"next_cursor":"c2"}`)
	r.api.on("GET /v1/endpoints", 200, `{"data":[{"id":"ep_1","destinations":[{"id":"dst_1","name":"orders"}]}]}`)
	r.signedIn().get(eventPath1+"/attempts").want(200, "Attempt 7", "200 OK", "<code>orders</code>", "cursor=c2")
}

var rawTime = regexp.MustCompile(`>[^<]*\d{4}-\d{2}-\d{2}T[^<]*<`)

// No page shows a time as the API writes it: it is long, and breaks in its middle.
func TestTimesOfSentencesAreReadable(t *testing.T) {
	const why = `"why":"waiting: the rate limit delays it; next attempt at 2026-08-21T22:30:00.000Z",
		"why_details":{"code":"paced","until":"2026-08-21T22:30:00.000Z","cause":null}`
	r := eventRig(t, `"why":"next in 6 min"`, why)
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","endpoint_id":"ep_1","status":"pending","destinations":{},
		"received_at":"2026-08-21T22:20:00.000Z",`+why+`}]}`)
	b := r.signedIn()
	for _, path := range []string{ui.EventsPath, eventPath1, "/app/endpoints/ep_1/wait"} {
		a := b.get(path).want(200, ">22:30:00</time>, <time data-relative")
		is.Equal(t, rawTime.FindString(a.main()), "", "%s shows", path)
	}
}

// An event whose endpoint verifies nothing has a short note about its signature, with the way to set it up.
func TestUnverifiedEventsSaySoShortly(t *testing.T) {
	r := eventRig(t, `"verification":"verified"`, `"verification":"unverified"`)
	r.api.on("GET /v1/endpoints/ep_1", 200, `{"id":"ep_1","name":"payments","verification":null,"destinations":[]}`)
	b := r.signedIn()
	for _, path := range []string{eventPath1, eventPath1 + "?signature=1"} {
		b.get(path).want(200, "No verification is set up", `href="/app/endpoints/ep_1/settings"`)
	}
	for _, c := range r.api.calls {
		if strings.HasSuffix(c.Path, "/signature") {
			t.Error("the signature was explained")
		}
	}
}

const oneEvent = `{"data":[{"id":"evt_0000000000000000000000000a","object":"event","endpoint_id":"ep_1","type":"a<b>",
	"status":"pending","attempts":0,"source":"provider","processing":"none","size_bytes":12,
	"received_at":"2026-08-21T22:24:35.123Z","reason":null,"why":"held: breaker <open>","verification":"verified",
	"deliveries":[{"destination_id":"dst_1","status":"held","reason":"breaker_open"},
	{"destination_id":"dst_2","status":"delivered","reason":null}]}],"next_cursor":"c2"}`

func eventsRig(t *testing.T) *rig {
	r := newRig(t)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	r.api.on("GET /v1/events", http.StatusOK, oneEvent)
	return r
}

// listed returns the query of the last list of events.
func (r *rig) listed() url.Values {
	for i := len(r.api.calls) - 1; i >= 0; i-- {
		if c := r.api.calls[i]; c.Path == "/v1/events" {
			return c.Query
		}
	}
	return nil
}

func TestEventsSayWhy(t *testing.T) {
	b := eventsRig(t).signedIn()
	b.get(ui.EventsPath).want(200, "pending, held", "a&lt;b&gt;", "held: breaker &lt;open&gt;", "payments", "22:24:35",
		`aria-label="delivered"`, "Older events", "cursor=c2",
		`href="/app/events/evt_0000000000000000000000000a"`)
}

// Tabs have the number of events of each status, within the other filters; the chart has them by time, and its bars
// lead to their events. What destinations have answered stands in the row.
func TestListOfEventsHasCounts(t *testing.T) {
	r := eventsRig(t)
	r.api.on("GET /v1/events/counts", http.StatusOK, `{"counted":1000,"more":true,
		"statuses":{"delivered":900,"failed":100},"step_seconds":60,"steps":[{"at":"2026-08-21T22:20:00Z","delivered":900},
		{"at":"2026-08-21T22:22:00Z","failed":100}]}`)
	r.api.on("GET /v1/events", http.StatusOK, strings.NewReplacer(`"held","reason":"breaker_open"`,
		`"failed","reason":"attempts_exhausted","last_response_status":503`, `"a<b>"`, `"a.<b>"`).Replace(oneEvent))
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments","destinations":[{"id":"dst_1",
		"name":"<ledger>","url":"https://a.example.com"}]}]}`)
	b := r.signedIn()
	b.get(ui.EventsPath+"?type=a.*&status=failed&since=1h").want(200,
		`href="/app/events?since=1h&amp;type=a.%2A">All`,
		`href="/app/events?since=1h&amp;status=delivered&amp;type=a.%2A">delivered <small class="num">900&#43;</small>`,
		`href="/app/events?since=1h&amp;status=failed&amp;type=a.%2A" aria-current="page">failed`, "newest 1,000: 100",
		"aria-current=\"true\">1\u00a0h</span>",
		`href="/app/events?since=24h&amp;status=failed&amp;type=a.%2A">`+"24\u00a0h</a>",
		`<title>22:22: 100 failed or rejected`, "<title>22:21: none<", "until=2026-08-21T22%3A23%3A00Z",
		"<b>&lt;ledger&gt; answered 503</b>: ", `aria-label="&lt;ledger&gt;: failed"`, "a.<wbr>&lt;b&gt;")
	for _, c := range r.api.calls {
		if c.Path == "/v1/events/counts" && (c.Query.Has("status") || c.Query.Get("type") != "a.*" || c.Query.Has("limit")) {
			t.Errorf("counted are %s", c.Query.Encode())
		}
	}
	b.get(ui.EventsPath+"?endpoint_id=ep_1&destination_id=dst_1").want(200, "endpoint payments<",
		"destination payments → &lt;ledger&gt;<")
	is.Lacks(t, b.get(ui.EventsPath+"?q=x").want(200).main(), `aria-label="Status"`, "a search has counts")
	page := b.get(ui.EventsPath).main()
	if strings.Contains(page, "<th>Receipt") || strings.Contains(page, "<details open>") {
		t.Error("receipts that nobody uses have a column, or filters that are off are shown")
	}
	b.get(ui.EventsPath+"?source=api").want(200, "<details open><summary class=\"b q\">More filters")
}

// An event with many destinations has the marks that matter most and a number, so that its row is as wide as others.
func TestMarksAreBounded(t *testing.T) {
	r := eventsRig(t)
	deliveries := strings.Repeat(`{"destination_id":"dst_1","status":"delivered"},`, 19) +
		`{"destination_id":"dst_2","status":"failed"}`
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","status":"failed","deliveries":[`+deliveries+`]}]}`)
	row := regexp.MustCompile(`<span class="marks">.*?</span></span>`).FindString(r.signedIn().get(ui.EventsPath).body)
	if !strings.HasPrefix(row, `<span class="marks"><svg class="i failed"`) || strings.Count(row, "<svg") != 5 ||
		!strings.Contains(row, ">+15<") {
		t.Errorf("%s", row)
	}
}

// Every filter of the page reaches the API under the name of the API, and stays in the form and in the links.
func TestFiltersReachTheAPI(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	query := url.Values{"body_path": {"data.order.id"}, "body_value": {"4 2"}, "header_path": {"x-a"},
		"header_value": {"1"}}
	names := []string{"since", "until", "q"}
	for _, f := range event.Filters {
		names = append(names, f.Name)
	}
	for _, name := range names {
		query.Set(name, "v-"+name)
	}
	page := b.get(ui.EventsPath + "?" + query.Encode()).want(200)
	got := r.listed()
	for _, name := range names {
		is.Equal(t, got.Get(name), "v-"+name, "%s reached the API as", name)
		if !strings.Contains(page.main(), `value="v-`+name+`"`) && !strings.Contains(page.main(), "v-"+name) {
			t.Errorf("%s is not in the form", name)
		}
	}
	if got.Get("body[data.order.id]") != "4 2" || got.Get("header[x-a]") != "1" || got.Get("limit") != "50" {
		t.Errorf("%v", got)
	}
	next := url.Values{"cursor": {"c2"}}
	for name := range query {
		next.Set(name, query.Get(name))
	}
	page.want(200, `href="`+ui.EventsPath+"?"+strings.NewReplacer("&", "&amp;", "+",
		"&#43;").Replace(next.Encode())+`"`)
	b.get(ui.EventsPath + "?unknown=1&limit=1000000")
	if got := r.listed(); got.Has("unknown") || got.Get("limit") != "50" {
		t.Errorf("%v", got)
	}
}

// The list leads to the form of a replay that selects the same events, or none that a replay can tell from others.
func TestListOfEventsLeadsToItsReplay(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	const oldest = "since=2026-08-21T22%3A24%3A35Z" // is when the oldest event was received
	for query, want := range map[string]string{
		"status=failed&type=a.*":                  oldest + "&amp;status=failed&amp;type=a.%2A",
		"endpoint_id=ep_1&since=2026-08-20":       "endpoint_id=ep_1&amp;since=2026-08-20",
		"status=failed&since=2026-08-20&until=21": "since=2026-08-20&amp;status=failed&amp;until=21",
		"destination_id=dst_1&run_id=":            "destination_id=dst_1&amp;" + oldest,
		"":                                        "",
		"since=2026-08-20":                        "",
		"status=failed&source=api":                "",
		"status=failed&q=x":                       "",
		"status=failed&body_path=a&body_value=1":  "",
		"status=failed&tail=1":                    "",
		"status=failed&cursor=c2":                 "",
	} {
		page := b.get(ui.EventsPath + "?" + query).want(200).main()
		switch link := `href="` + ui.NewReplayPath + "?" + want + `"`; {
		case want == "" && strings.Contains(page, ui.NewReplayPath):
			t.Errorf("%q leads to a replay of other events", query)
		case want != "" && !strings.Contains(page, link):
			t.Errorf("%q does not lead to %s", query, link)
		}
	}
	r.people.person.Scope = config.Read
	is.Lacks(t, r.signedIn().get(ui.EventsPath+"?status=failed").want(200).main(), ui.NewReplayPath,
		"a person who may only read is led to a replay")
}

func TestSearchForAnIDOpensTheEvent(t *testing.T) {
	b := eventsRig(t).signedIn()
	b.get(ui.EventsPath + "?q=+evt_0000000000000000000000000A").
		wantRedirect(ui.EventsPath + "/evt_0000000000000000000000000A")
	b.get(ui.EventsPath + "?q=evt_").want(200)
}

func TestTailFollowsTheFirstPage(t *testing.T) {
	b := eventsRig(t).signedIn()
	b.get(ui.EventsPath+"?tail=1&status=failed").want(200, `data-live="/app/events?status=failed&amp;tail=1"`,
		`<noscript><meta http-equiv="refresh"`, "Following", "Pause")
	part := b.get(ui.EventsPath+"?tail=1", "Relay-Part", "rows").want(200, `id="rows"`)
	if strings.Contains(part.body, "<html") || strings.Contains(part.body, `id="filter"`) {
		t.Errorf("the part is a page: %s", part.body)
	}
	if page := b.get(ui.EventsPath + "?tail=1&cursor=c2").want(200); strings.Contains(page.body, "data-live") {
		t.Error("an older page is followed")
	}
}

// A list that is not followed counts what arrives while it is open, if that costs no search.
func TestListCountsWhatArrives(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	list := func(next string, ids ...string) {
		r.api.on("GET /v1/events", 200, `{"data":[{"id":"`+strings.Join(ids, `"},{"id":"`)+`"}],"next_cursor":`+next+`}`)
	}
	list("null", "evt_1")
	b.get(ui.EventsPath+"?status=failed").want(200, `data-live="/app/events?newer=evt_1&amp;status=failed"`)
	for _, x := range []struct{ next, ids, want string }{
		{"null", "evt_1", "></span>"}, {"null", "evt_3 evt_2 evt_1 evt_0", ">2 new<"},
		{"null", "evt_3", ">1 new<"}, {`"c2"`, "evt_9 evt_8", ">over 2 new<"},
	} {
		list(x.next, strings.Fields(x.ids)...)
		b.get(ui.EventsPath+"?newer=evt_1&status=failed", "Relay-Part", "newer").want(200, x.want)
	}
	for _, other := range []string{"?q=x", "?body_path=a&body_value=1", "?until=1h", "?tail=1", "?cursor=c2"} {
		if page := b.get(ui.EventsPath + other).want(200); strings.Contains(page.body, "newer=") {
			t.Errorf("%s counts", other)
		}
	}
}

// Each filter that is on has a chip that removes it, a search for a text too.
func TestChipsRemoveFilters(t *testing.T) {
	eventsRig(t).signedIn().get(ui.EventsPath+"?q=x+y&status=failed").want(200,
		`<a class="chip" href="/app/events?q=x&#43;y">status failed<`,
		`<a class="chip" href="/app/events?status=failed">text x y<`)
}

func TestSearchSaysHowFarItCame(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/events", 200, `{"data":[],"partial":true,"scanned":120000,"next_cursor":"c3"}`)
	b.get(ui.EventsPath+"?q=x").want(200, "Nothing found in the 120,000 events read so far", "Search on", "cursor=c3")
	r.api.on("GET /v1/events", 200, `{"data":[],"scanned":9}`)
	b.get(ui.EventsPath+"?q=x").want(200, "No event matches", "31 days at most", "Searched 9 events")
	r.api.on("GET /v1/events", 200, `{"data":[]}`)
	b.get(ui.EventsPath).want(200, "No event yet", origin+"/v1/endpoints/ep_",
		`-H &#34;Content-Type: application/j<span class="nb">son&#34;`)
}

func TestSearchShowsWarnings(t *testing.T) {
	r := eventsRig(t)
	r.api.on("GET /v1/events", 200, `{"data":[],"scanned":9,
"warnings":[{"param":"body[/a]","message":"the / is literal"}]}`)
	r.signedIn().get(ui.EventsPath+"?body_path=/a&body_value=1").want(200, "Body[/a]: the / is literal.")
}

func TestEventsWithoutTheStoreAndWithAWrongFilter(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/events", 503, `{"error":{"type":"unavailable","message":"the event store is unavailable"}}`)
	b.get(ui.EventsPath).want(503, "The event store is unavailable.", "still accepted and delivered")
	r.api.on("GET /v1/events", 400, `{"error":{"type":"invalid_request","param":"body[a","message":"body[a: is no path"}}`)
	b.get(ui.EventsPath+"?body_path=[&body_value=1").want(400, `href="#f-body_path"`, "Is no path.",
		"change the filter")
	b.get(ui.EventsPath+"?header_path=a").want(400, `href="#f-header_value"`, "Is required", "change the filter")
}
