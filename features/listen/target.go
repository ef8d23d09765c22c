package listen

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/sign"
)

const (
	answerTime     = 30 * time.Second
	maxLocalAnswer = 64 << 10
)

// target is where copies are sent.
type target struct {
	url    *url.URL
	shown  string
	secret *sign.Secret
	client *http.Client
}

// newTarget checks a URL. Each connection is checked when it is made, so that a name that changes leads nowhere else.
func newTarget(text string, remote bool, secret *sign.Secret) (*target, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("--to must be an http or https URL, such as http://localhost:3000/webhooks")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("--to must have no user name, password or fragment")
	}
	t := &target{url: u, secret: secret, shown: u.Scheme + "://" + u.Host + u.Path}
	if u.RawQuery != "" {
		t.shown += "?…" // it may hold a credential
	}
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		class := egress.ClassifyAddr(addr.Addr().WithZone("").Unmap())
		if class == egress.Loopback || class == egress.Private || class == egress.Public && remote && u.Scheme == "https" {
			return nil
		}
		return fmt.Errorf("%v is %s: the target must be on this machine or in a private network; "+
			"--allow-remote allows public https URLs", addr.Addr(), class)
	}}
	t.client = &http.Client{
		// A connection for each copy: a server that is being worked on restarts all the time.
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, DisableKeepAlives: true},
		Timeout:       answerTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return t, nil
}

// send sends a copy and returns the status of the answer, or why there is none.
func (t *target) send(ctx context.Context, e *wire.StreamEvent) (status int, fault string) {
	req, err := http.NewRequestWithContext(ctx, e.Method, t.url.String(), bytes.NewReader(e.Body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header = t.headers(e, time.Now())
	resp, err := t.client.Do(req)
	if err != nil {
		if reason, ok := errors.AsType[*url.Error](err); ok {
			err = reason.Err // without the query of the URL
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return 0, "nothing listens on " + t.url.Host
		}
		return 0, err.Error()
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxLocalAnswer) // the status counts
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		fault = "a redirect, not followed: give the final URL"
	}
	return resp.StatusCode, fault
}

// connectionHeaders belong to one connection (RFC 9110, 7.6.1), or are made for each request.
var connectionHeaders = map[string]bool{"host": true, "connection": true, "keep-alive": true, "te": true,
	"trailer": true, "transfer-encoding": true, "upgrade": true, "expect": true, "content-length": true}

// headers are the received ones but those of the connection and those of strangers that look like the relay's own, and
// the event's id.
func (t *target) headers(e *wire.StreamEvent, now time.Time) http.Header {
	drop, signed := map[string]bool{}, false
	for _, pair := range e.Headers {
		switch strings.ToLower(pair[0]) {
		case "connection":
			for name := range strings.SplitSeq(strings.ToLower(pair[1]), ",") {
				drop[strings.TrimSpace(name)] = true
			}
		case "webhook-id", "webhook-signature":
			signed = true
		}
	}
	h := http.Header{"User-Agent": nil, "Relay-Event-Id": {e.ID}}
	for i, pair := range e.Headers {
		lower, value := strings.ToLower(pair[0]), pair[1]
		if connectionHeaders[lower] || drop[lower] || strings.HasPrefix(lower, "proxy-") || forged(lower) {
			continue
		}
		if i < len(e.HeadersBase64) && e.HeadersBase64[i] != nil {
			if raw, err := base64.StdEncoding.DecodeString(*e.HeadersBase64[i]); err == nil {
				value = string(raw)
			}
		}
		name := http.CanonicalHeaderKey(pair[0])
		h[name] = append(h[name], value)
	}
	if t.secret != nil && !signed {
		h.Set("Webhook-Id", e.ID)
		h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set("Webhook-Signature", sign.Sign([]sign.Secret{*t.secret}, e.ID, now, e.Body))
	}
	return h
}

// forged reports whether an application could take a header of a stranger for one of the relay: relay-event-id, or
// relay_event_id. Those that end loops of relays stay.
func forged(lower string) bool {
	rest, ok := strings.CutPrefix(lower, "relay")
	return ok && rest != "" && strings.Trim(rest[:1], "abcdefghijklmnopqrstuvwxyz0123456789") != "" &&
		lower != "relay-hops" && lower != "relay-path"
}
