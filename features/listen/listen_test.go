package listen

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func sample(id, kind string) *wire.StreamEvent {
	return &wire.StreamEvent{ID: id, Method: "POST", Type: &kind, Body: []byte("{}")}
}

// A copy has the received headers but those of the connection and those of strangers that look like the relay's own. A
// value keeps its bytes. An event without a signature is signed if there is a secret.
func TestHeadersOfACopy(t *testing.T) {
	secret := must.Get(sign.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))(t)
	to := &target{secret: &secret}
	raw := base64.StdEncoding.EncodeToString([]byte("caf\xe9"))
	e := sample("evt_1", "a")
	e.Headers = [][2]string{{"X-Name", "caf\ufffd"}, {"x-twice", "1"}, {"X-Twice", "2"}, {"Connection", "X-Hop"},
		{"X-Hop", "1"}, {"Host", "a"}, {"Proxy-Authorization", "a"}, {"Relay_Event_Id", "evt_2"}, {"Relay-Hops", "1"},
		{"Relayed", "yes"}}
	e.HeadersBase64 = []*string{&raw}
	got := to.headers(e, time.Unix(1, 0))
	want := http.Header{"X-Name": {"caf\xe9"}, "X-Twice": {"1", "2"}, "Relay-Hops": {"1"}, "Relayed": {"yes"},
		"Relay-Event-Id": {"evt_1"}, "User-Agent": nil, "Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {"1"},
		"Webhook-Signature": got["Webhook-Signature"]}
	if d := cmp.Diff(want, got); d != "" || len(got["Webhook-Signature"]) != 1 {
		t.Error(d)
	}
	e.Headers = append(e.Headers, [2]string{"webhook-signature", "theirs"})
	if got := to.headers(e, time.Unix(1, 0)); got.Get("Webhook-Signature") != "theirs" || got.Get("Webhook-Id") != "" {
		t.Errorf("signed by the provider: %v", got)
	}
}

// Nothing is sent to an address that is neither on this machine nor in a private network, nor after a redirect.
func TestTargets(t *testing.T) {
	for _, text := range []string{"", "localhost:80", "ftp://localhost", "http://u:p@localhost", "http://localhost/#a"} {
		if _, err := newTarget(text, false, nil); err == nil {
			t.Errorf("%q is a target", text)
		}
	}
	for _, text := range []string{"https://203.0.113.9/", "http://169.254.169.254/", "http://8.8.8.8/",
		"http://[fe80::1]/"} {
		to := must.Get(newTarget(text, strings.HasPrefix(text, "http:"), nil))(t)
		if status, fault := to.send(t.Context(), sample("evt_1", "a")); status != 0 || !strings.Contains(fault,
			"must be on this machine") {
			t.Errorf("%s: %d %q", text, status, fault)
		}
	}
	moved := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	defer moved.Close()
	to := must.Get(newTarget(moved.URL+"/?token=hunter2", false, nil))(t)
	if status, fault := to.send(t.Context(), sample("evt_1", "a")); status != 302 || !strings.Contains(fault, "redirect") {
		t.Errorf("a redirect: %d %q", status, fault)
	}
	moved.Close()
	if _, fault := to.send(t.Context(), sample("evt_1", "a")); !strings.HasPrefix(fault, "nothing listens on ") {
		t.Errorf("nobody listens: %q", fault)
	}
	is.Lacks(t, to.shown, "hunter2", "the target is shown as")
}

// The screen shows the newest copies, sends the chosen one again, and chooses types.
func TestScreen(t *testing.T) {
	var again []string
	var types []string
	s := &screen{title: "title", again: func(c Copy) { again = append(again, c.Event.ID) },
		choose: func(chosen []string) { types = chosen }}
	press := func(keys ...tea.KeyMsg) {
		for _, key := range keys {
			s.Update(key)
		}
	}
	runes := func(text string) tea.KeyMsg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text)} }
	s.Update(tea.WindowSizeMsg{Width: 60, Height: 12})
	s.Update(statusText("waiting\x1b[2J"))
	press(runes("r")) // there is nothing to send
	for _, id := range []string{"evt_1", "evt_2", "evt_3", "evt_4", "evt_5", "evt_6"} {
		s.Update(copied{Event: sample(id, "order.paid"), Status: 200})
	}
	press(tea.KeyMsg{Type: tea.KeyUp}, tea.KeyMsg{Type: tea.KeyUp}, runes("r"))
	s.Update(copied{Event: sample("evt_7", "order.paid"), Fault: "nothing listens"})
	press(runes("r"))
	is.List(t, again, []string{"evt_4", "evt_4"}, "sent again")
	press(runes("f"), runes("order.*,"), runes("xq"), tea.KeyMsg{Type: tea.KeyBackspace},
		tea.KeyMsg{Type: tea.KeyEnter})
	is.List(t, types, []string{"order.*", "x"}, "types")
	view := s.View()
	lines := strings.Split(view, "\n")
	if len(lines) > 12 || strings.Contains(view, "\x1b") || !strings.Contains(view, "> ") ||
		!strings.Contains(view, "6 answered with 2xx, 0 with another status, 1 without") || strings.Contains(view, "evt_1 ") {
		t.Errorf("the screen is\n%s", view)
	}
	if _, end := s.Update(runes("q")); end == nil {
		t.Error("q does not end it")
	}
}

// A key that is refused ends the program, a service that never answered does so after a few tries, and the position of
// another endpoint is given up.
func TestRefusals(t *testing.T) {
	status, body := http.StatusUnauthorized, `{"error":{"message":"the API key is unknown"}}`
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-Id") != "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer service.Close()
	l := must.Get(New(Options{BaseURL: service.URL, Key: "k", Endpoint: "ep_1", Target: "http://localhost:1"}))(t)
	is.Failed(t, l.Run(t.Context(), &Plain{Out: t.Output(), Err: t.Output()}), "401: the API key is unknown",
		"ended with")
	l.cursor = "another"
	if err := l.follow(t.Context(), func() {}); err == nil || l.cursor != "" {
		t.Errorf("an unknown position: %v, %q", err, l.cursor)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.OK(t, l.Run(ctx, &Plain{Out: t.Output(), Err: t.Output()}), "ended by its person")
}

// An endpoint is found by its name, over all pages of the list. Another name is refused with the one that was meant.
func TestFindEndpoint(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := `{"data":[{"id":"ep_1","name":"billing"},{"id":"ep_2","name":"shop"}],"next_cursor":"c1"}`
		if r.FormValue("cursor") == "c1" {
			page = `{"data":[{"id":"ep_3","name":"shop"},{"id":"ep_4","name":"crm"}],"next_cursor":null}`
		}
		_, _ = w.Write([]byte(page))
	}))
	defer service.Close()
	for name, want := range map[string]string{"ep_9": "ep_9", "billing": "ep_1", "crm": "ep_4"} {
		id, err := FindEndpoint(t.Context(), service.URL, "k", name)
		is.Equal(t, id, want, "%s: %v", name, err)
	}
	for name, want := range map[string]string{"shop": "give the id: ep_2, ep_3", "biling": "did you mean billing"} {
		_, err := FindEndpoint(t.Context(), service.URL, "k", name)
		is.Failed(t, err, want, name)
	}
}

// A program that is stopped while it copies an event waits for the answer, and copies no other. It goes on after it.
func TestStopWhileCopying(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: ready\ndata: {}\n\n" +
			"id: c1\nevent: event\ndata: {\"id\":\"evt_1\",\"method\":\"POST\"}\n\n" +
			"id: c2\nevent: event\ndata: {\"id\":\"evt_2\",\"method\":\"POST\"}\n\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer service.Close()
	ctx, cancel := context.WithCancel(t.Context())
	local := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		time.Sleep(50 * time.Millisecond) // time for a cancelled request to fail
	}))
	defer local.Close()
	l := must.Get(New(Options{BaseURL: service.URL, Key: "k", Endpoint: "ep_1", Target: local.URL}))(t)
	view := &Plain{Out: t.Output(), Err: t.Output()}
	must.Do(t, l.Run(ctx, view))
	is.Has(t, view.Summary(), "1 answered with 2xx", "")
	is.Equal(t, l.cursor, "c1", "goes on after")
}
