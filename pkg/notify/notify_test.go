package notify

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// servers creates senders, and test servers whose certificate they trust.
type servers struct {
	t    *testing.T
	conf *tls.Config
	ca   string
}

func newServers(t *testing.T) *servers {
	conf, ca := kit.Certificate(t)
	return &servers{t, conf, ca}
}

func (w *servers) sender(smtpURL string) *Sender {
	w.t.Helper()
	transport := must.Get(egress.NewTransport(
		egress.Config{Policy: egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, CAFile: w.ca}))(w.t)
	w.t.Cleanup(transport.CloseIdleConnections)
	operator := must.Get(egress.NewOperatorDialer(w.ca, ""))(w.t)
	s := must.Get(New(Config{SMTPURL: smtpURL, Version: "test"},
		Deps{Transport: transport, Dial: operator.Dial, TLS: operator.TLS(), Now: time.Now}))(w.t)
	return s
}

// serve starts an HTTPS server.
func (w *servers) serve(h http.HandlerFunc) string {
	srv := httptest.NewUnstartedServer(h)
	srv.TLS = w.conf.Clone()
	srv.StartTLS()
	w.t.Cleanup(srv.Close)
	return srv.URL
}

func message() Message {
	return Message{
		ID: "alrt_1", Type: "alert.destination.held", At: time.Date(2026, 8, 21, 22, 24, 36, 5e6, time.UTC),
		Title: "Held: orders <eu> & more", Text: "The destination takes nothing.", Facts: []Fact{{"Endpoint", "ep_1"}},
		Link: "https://relay.example.com/app",
		Data: AlertData{Rule: "destination_state", Value: "breaker_open", DashboardURL: "https://relay.example.com/app"},
	}
}

func TestWebhookIsSigned(t *testing.T) {
	w := newServers(t)
	secret := sign.NewSecret()
	var header http.Header
	var body []byte
	url := w.serve(func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
	})
	r := w.sender("").Send(t.Context(), Channel{Kind: Webhook, URL: url, Secret: secret}, message())
	if !r.OK || r.Code != 200 || r.Error != "" || r.Duration <= 0 {
		t.Fatalf("result %+v", r)
	}
	var at int64
	fmt.Sscan(header.Get("webhook-timestamp"), &at)
	if want := sign.Sign([]sign.Secret{secret}, "alrt_1", time.Unix(at, 0), body); header.Get(
		"webhook-signature") != want || header.Get("webhook-id") != "alrt_1" {
		t.Errorf("headers %v, want signature %s", header, want)
	}
	const want = `{"id":"alrt_1","type":"alert.destination.held","timestamp":"2026-08-21T22:24:36.005Z",` +
		`"data":{"endpoint_id":null,"destination_id":null,` +
		`"rule":"destination_state","value":"breaker_open","threshold":null,"dashboard_url":"https://relay.example.com/app"}}`
	is.Equal(t, string(body), want, "body %s", body)
}

func TestSlackGetsTextAndBlocks(t *testing.T) {
	w := newServers(t)
	var body struct {
		Text   string
		Blocks []struct {
			Type string
			Text struct{ Type, Text string }
		}
	}
	url := w.serve(func(_ http.ResponseWriter, r *http.Request) {
		is.Equal(t, r.Header.Get("webhook-signature"), "", "signed without a secret")
		is.OK(t, json.NewDecoder(r.Body).Decode(&body))
	})
	m := message()
	m.Text = strings.Repeat("ü", 4000)
	if r := w.sender("").Send(t.Context(), Channel{Kind: Slack, URL: url}, m); !r.OK {
		t.Fatalf("result %+v", r)
	}
	if body.Text != "Held: orders &lt;eu&gt; &amp; more" || len(body.Blocks) != 4 ||
		len([]rune(body.Blocks[1].Text.Text)) != maxSlackText {
		t.Errorf("body %+v", body)
	}
	m.Text = strings.Repeat("<&>ü", 1000)
	if r := w.sender("").Send(t.Context(), Channel{Kind: Slack, URL: url}, m); !r.OK {
		t.Fatalf("result %+v", r)
	}
	got, cut := strings.CutSuffix(body.Blocks[1].Text.Text, "…")
	if n := len([]rune(got)); !cut || n >= maxSlackText || n < maxSlackText-10 ||
		strings.Trim(strings.ReplaceAll(got, "&lt;&amp;&gt;ü", ""), "&lt;amp") != "" {
		t.Errorf("%d characters that end with %q", n, got[len(got)-20:])
	}
}

// Text from users, such as names, adds no line or header, no hidden or reversed characters, and no link in Slack.
func TestUntrustedTextIsNeutralized(t *testing.T) {
	w := newServers(t)
	var body struct {
		Text, Parse string
		UnfurlLinks *bool `json:"unfurl_links"`
		Blocks      []struct {
			Text   struct{ Type, Text string }
			Fields []struct {
				Text     string
				Verbatim bool
			}
		}
	}
	url := w.serve(func(_ http.ResponseWriter, r *http.Request) {
		is.OK(t, json.NewDecoder(r.Body).Decode(&body))
	})
	const name = "a\r\nBcc: x@evil.example\u202e\u200b\x07 https://evil.example/login <!channel> www.evil.example"
	m := message()
	m.Title, m.Facts = "Alert: "+name, []Fact{{"Endpoint", name}, {name, "1"}} // a digest names applications
	if r := w.sender("").Send(t.Context(), Channel{Kind: Slack, URL: url}, m); !r.OK {
		t.Fatalf("result %+v", r)
	}
	const shown = "a  Bcc: x@evil[.]example https[:]//evil[.]example/login &lt;!channel&gt; www[.]evil[.]example"
	field := body.Blocks[2].Fields[0]
	if body.Text != "Alert: "+shown || body.Parse != "none" || body.UnfurlLinks == nil || *body.UnfurlLinks ||
		field.Text != "*Endpoint*\n"+shown || !field.Verbatim || body.Blocks[2].Fields[1].Text != "*"+shown+"*\n1" ||
		strings.Contains(body.Blocks[0].Text.Text, "evil.example") ||
		body.Blocks[3].Text.Text != "<https://relay.example.com/app|Open in EventRelay>" {
		t.Errorf("Slack got %+v", body)
	}
	server := kit.NewMailServer(t, w.conf, kit.MailOptions{})
	r := w.sender("smtp://"+server.Addr+"?from=relay@example.com").Send(t.Context(), Channel{Kind: Email,
		To: []string{"ops@example.com"}}, m)
	if !r.OK {
		t.Fatalf("result %+v", r)
	}
	const plain = "a  Bcc: x@evil[.]example https[:]//evil[.]example/login <!channel> www[.]evil[.]example"
	l := server.Messages()[0]
	if l.Header.Get("Subject") != "Alert: "+plain || l.Header.Get("Bcc") != "" ||
		!strings.Contains(strings.ReplaceAll(l.Body, "=\r\n", ""), "\nEndpoint: "+plain+"\r\n"+plain+": 1\r\n") {
		t.Errorf("mail %+v", l)
	}
	foreign, link, _ := strings.Cut(l.Header.Get("Subject")+l.Body, "https://")
	if linked := regexp.MustCompile(`://|\w\.[a-zA-Z]`).FindString(foreign); linked != "" ||
		strings.TrimSpace(link) != "relay.example.com/app" {
		t.Errorf("the mail has %q and ends with %q: %s", linked, link, l.Body)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	w := newServers(t)
	followed := false
	other := w.serve(func(http.ResponseWriter, *http.Request) { followed = true })
	url := w.serve(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, other, http.StatusTemporaryRedirect)
	})
	r := w.sender("").Send(t.Context(), Channel{Kind: Webhook, URL: url}, message())
	if r.OK || r.Error != event.CodeRedirectBlocked || r.Code != 307 || followed {
		t.Errorf("result %+v, followed %v", r, followed)
	}
}

// No text of a result contains what the settings hide.
func TestResultsHoldNoSecret(t *testing.T) {
	w := newServers(t)
	refusing := w.serve(func(rw http.ResponseWriter, r *http.Request) {
		http.Error(rw, r.URL.String(), http.StatusNotFound)
	})
	cases := map[string]event.ErrorCode{
		refusing + "/hush": event.CodeHTTPStatus, "https://127.0.0.1:1/hush": event.CodeConnectionRefused,
		"https://10.0.0.1/hush": event.CodeAddressBlocked,
		"https://\x7f/hush":     event.CodeInternal,
	}
	for url, want := range cases {
		for _, kind := range []Kind{Slack, Webhook} {
			r := w.sender("").Send(t.Context(), Channel{Kind: kind, URL: url, Secret: sign.NewSecret()}, message())
			if r.OK || r.Error != want || r.Message == "" || strings.Contains(r.Message, "hush") {
				t.Errorf("%q: %+v, want %s", url, r, want)
			}
		}
	}
	m := kit.NewMailServer(t, w.conf, kit.MailOptions{StartTLS: true, User: "relay", Password: "right"})
	r := w.sender("smtp://relay:hush@"+m.Addr+"?from=relay@example.com").
		Send(t.Context(), Channel{Kind: Email, To: []string{"ops@example.com"}}, message())
	if r.OK || r.Error != CodeSMTP || strings.Contains(r.Message, "hush") || r.Undelivered["ops@example.com"] != true {
		t.Errorf("wrong password: %+v", r)
	}
}

func TestMailReachesEveryAddress(t *testing.T) {
	w := newServers(t)
	for scheme, o := range map[string]kit.MailOptions{
		"smtp://":               {},
		"smtp://relay:secret@":  {StartTLS: true, User: "relay", Password: "secret"},
		"smtps://relay:secret@": {Implicit: true, User: "relay", Password: "secret"},
	} {
		m := kit.NewMailServer(t, w.conf, o)
		s := w.sender(scheme + m.Addr + "?from=%22R@Relay%22+<relay@example.com>")
		r := s.Send(t.Context(), Channel{Kind: Email, To: []string{"ops@example.com", "second@example.org"}}, message())
		mails := m.Messages()
		if !r.OK || len(mails) != 2 {
			t.Fatalf("%s: %+v, %d mails", scheme, r, len(mails))
		}
		l := mails[1]
		if l.From != "relay@example.com" || len(l.To) != 1 || l.To[0] != "second@example.org" ||
			l.TLS != (o != kit.MailOptions{}) ||
			l.Header.Get("Message-Id") != "<alrt_1@example.com>" || l.Header.Get("Auto-Submitted") != "auto-generated" ||
			!strings.Contains(l.Body, "takes nothing") || !strings.Contains(l.Body, "Endpoint: ep_1") ||
			!strings.Contains(l.Body, "relay.example.com/app") {
			t.Errorf("%s: mail %+v", scheme, l)
		}
		is.Equal(t, l.Header.Get("Subject"), message().Title, "%s: subject", scheme)
	}
}

// A refused address does not affect the others, and the result says whether a retry may succeed.
func TestRefusedAddressDelaysNoOther(t *testing.T) {
	w := newServers(t)
	m := kit.NewMailServer(t, w.conf, kit.MailOptions{})
	m.RcptFunc = func(to string) error {
		switch to {
		case "gone@example.com":
			return &smtp.SMTPError{Code: 550, Message: "no such user"}
		case "busy@example.com":
			return &smtp.SMTPError{Code: 450, Message: "mailbox is busy"}
		}
		return nil
	}
	r := w.sender("smtp://"+m.Addr+"?from=relay@example.com").Send(t.Context(),
		Channel{Kind: Email, To: []string{"gone@example.com", "busy@example.com", "ops@example.com"}}, message())
	if r.OK || r.Error != CodeSMTP || len(r.Undelivered) != 2 || r.Undelivered["gone@example.com"] ||
		!r.Undelivered["busy@example.com"] || len(m.Messages()) != 1 {
		t.Errorf("result %+v, %d mails", r, len(m.Messages()))
	}
}

// Addresses that were saved before the operator restricted the domains are refused for good; the others receive the
// mail.
func TestMailGoesToAllowedDomainsOnly(t *testing.T) {
	w := newServers(t)
	m := kit.NewMailServer(t, w.conf, kit.MailOptions{})
	s := w.sender("smtp://" + m.Addr + "?from=relay@example.com")
	var err error
	if s.domains, err = ParseDomains([]string{"Example.com", "münchen.example"}); err != nil {
		t.Fatal(err)
	}
	r := s.Send(t.Context(), Channel{Kind: Email, To: []string{"ops@example.com", "x@mail.example.com",
		"ops@MÜNCHEN.example"}}, message())
	later, undelivered := r.Undelivered["x@mail.example.com"]
	if r.OK || r.Error != event.CodeAddressBlocked || !strings.Contains(r.Message, "x****@mail.example.com") ||
		len(r.Undelivered) != 1 || !undelivered || later || len(m.Messages()) != 2 {
		t.Errorf("result %+v, %d mails", r, len(m.Messages()))
	}
	if r := s.Send(t.Context(), Channel{Kind: Email, To: []string{"x@evil.example"}}, message()); r.OK ||
		len(r.Undelivered) != 1 || len(m.Messages()) != 2 {
		t.Errorf("result %+v", r)
	}
	for _, bad := range []string{"", "ops@example.com", "*.example.com", "a b"} {
		if _, err := ParseDomains([]string{bad}); err == nil {
			t.Errorf("%q is a domain", bad)
		}
	}
}

// A server that offers no TLS receives no password.
func TestPasswordNeedsTLS(t *testing.T) {
	w := newServers(t)
	m := kit.NewMailServer(t, w.conf, kit.MailOptions{User: "relay", Password: "secret"})
	r := w.sender("smtp://relay:secret@"+m.Addr+"?from=relay@example.com").
		Send(t.Context(), Channel{Kind: Email, To: []string{"ops@example.com"}}, message())
	if r.OK || !strings.Contains(r.Message, "STARTTLS") || len(m.Messages()) != 0 {
		t.Errorf("result %+v", r)
	}
}

// An attacker removes STARTTLS from the server's answer: nothing is sent, unless the operator allowed that.
func TestMailNeedsTLS(t *testing.T) {
	w := newServers(t)
	plain, secured := kit.NewMailServer(t, w.conf, kit.MailOptions{}), kit.NewMailServer(t, w.conf,
		kit.MailOptions{StartTLS: true})
	for _, x := range []struct {
		host, more string
		server     *kit.MailServer
		ok         bool
	}{
		{"example.com", "", plain, false}, {"example.com", "", secured, true}, {"example.com", "&tls=opportunistic",
			plain, true}, {"example.com", "&tls=opportunistic", secured, true},
		{"127.0.0.1", "", plain, true}, {"[::1]", "", plain, true}, {"localhost", "", plain, true}, {"127.0.0.1",
			"&tls=required", plain, false}, {"127.0.0.1", "&tls=required", secured, true},
	} {
		s := w.sender("smtp://" + x.host + ":25?from=relay@example.com" + x.more)
		s.deps.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, x.server.Addr)
		}
		before := len(x.server.Messages())
		r := s.Send(t.Context(), Channel{Kind: Email, To: []string{"ops@example.com"}}, message())
		mails := x.server.Messages()[before:]
		if r.OK != x.ok || x.ok != (len(mails) == 1) || x.ok && mails[0].TLS != (x.server == secured) {
			t.Errorf("%s%s: %+v, %d mails", x.host, x.more, r, len(mails))
		}
	}
}

func TestMailWithoutServerIsNotConfigured(t *testing.T) {
	r := newServers(t).sender("").Send(t.Context(), Channel{Kind: Email, To: []string{"ops@example.com"}}, message())
	if r.OK || r.Error != CodeNotConfigured {
		t.Errorf("result %+v", r)
	}
}

// A server that does not answer is given up when the caller's context ends, for every kind of channel.
func TestHungServersAreGivenUp(t *testing.T) {
	w := newServers(t)
	hung := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer hung.Close()
	for _, c := range []Channel{
		{Kind: Email, To: []string{"ops@example.com"}}, {Kind: Slack, URL: "https://" + hung.Addr().String()}} {

		s := w.sender("smtp://" + hung.Addr().String() + "?from=relay@example.com")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		start := time.Now()
		r := s.Send(ctx, c, message())
		cancel()
		if r.OK || r.Error != event.CodeTimeout || time.Since(start) > time.Minute {
			t.Errorf("%s: %+v after %v", c.Kind, r, time.Since(start))
		}
	}
}

func TestParseSMTP(t *testing.T) {
	for _, good := range []string{"smtp://h?from=a@b.c", "smtps://u:p@h:465?from=a@b.c",
		"smtp://h:25?from=Relay+<a@b.c>&tls=required",
		"smtp://h?from=a@b.c&tls=opportunistic"} {
		if _, err := ParseSMTP(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "h:25", "http://h?from=a@b.c", "smtp://?from=a@b.c", "smtp://h", "smtp://h?from=nobody", "smtp://h:0?from=a@b.c",
		"smtp://h:65536?from=a@b.c",
		"smtp://u:hush@h?from=a@b.c&tls=none", "smtp://u:hush@h?from=a@b.c&tls=opportunistic",
		"smtps://h?from=a@b.c&tls=opportunistic", "smtp://h?from=a@b.c&form=x", "smtp://u:hush@h:x?from=a@b.c"} {
		if _, err := ParseSMTP(bad); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestMaskURLAndAddress(t *testing.T) {
	for url, want := range map[string]string{
		"https://hooks.slack.com/services/T000/B000/abcdef?x=secret": "https://hooks.slack.com/****cdef",
		"https://ops.example.com:8443/hook":                          "https://ops.example.com:8443/****",
		// twelve characters with the slash
		"https://ops.example.com/12345678901":            "https://ops.example.com/****8901",
		"https://ops.example.com/1234567890":             "https://ops.example.com/****",
		"https://ops.example.com?token=abcdefghijklmnop": "https://ops.example.com/****",
		"\x7f": "****",
	} {
		is.Equal(t, MaskURL(url), want, url)
	}
	for address, want := range map[string]string{
		"ops@example.com": "o****@example.com", "ü@example.com": "ü****@example.com", "@example.com": "****@example.com"} {
		is.Equal(t, maskAddress(address), want, address)
	}
	is.Equal(t, (Channel{Kind: Email, To: []string{"a@b.c", "d@e.f"}}).Target(), "a****@b.c, d****@e.f", "target")
}

// roundTrip implements http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSendIsBoundedByTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		nowhere := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		s := must.Get(New(Config{SMTPURL: "smtp://h?from=a@b.c"},
			Deps{Transport: silent, Dial: nowhere, TLS: &tls.Config{}, Now: time.Now}))(t)
		for _, c := range []Channel{{Kind: Slack, URL: "https://h"}, {Kind: Email, To: []string{"a@b.c"}}} {
			r := s.Send(t.Context(), c, message())
			if r.OK || r.Error != event.CodeTimeout || r.Duration != Timeout ||
				strings.Contains(r.Message, "context deadline") {
				t.Errorf("%s: %+v", c.Kind, r)
			}
		}
	})
}
