package dispatcher

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
)

// dropped are received headers that are never forwarded: those of the hop (RFC 9110, 7.6.1), those
// that belong to one request only, and those by which a proxy tells about a client.
var dropped = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Host": true, "Content-Length": true, "Expect": true, "Accept-Encoding": true,
	"Forwarded": true, "X-Real-Ip": true, "User-Agent": true,
}

const forwardedPrefix = "X-Forwarded-"

// unproven are received headers that are not forwarded when nothing proves who sent the request. Receivers and the
// proxies before them take the relay's address for trusted, and by these a stranger would choose the method, the
// path, the user or the client that they see.
var unproven = map[string]bool{
	"X-Http-Method-Override": true, "X-Http-Method": true, "X-Method-Override": true,
	"X-Original-Url": true, "X-Original-Uri": true, "X-Rewrite-Url": true, "X-Host": true, "X-Forwarded": true,
	"Remote-User": true, "X-Remote-User": true, "X-Webauth-User": true, "X-Client-Cert": true,
	"True-Client-Ip": true, "Cf-Connecting-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true,
	"X-Originating-Ip": true, "Fastly-Client-Ip": true,
}

const (
	authRequestPrefix = "X-Auth-Request-"
	clientCertPrefix  = "X-Ssl-Client-"
)

// readAs is the name by which a receiver may read a header. Those that pass headers as variables (CGI, WSGI, PHP) read
// Relay_Hops as Relay-Hops, some of them any other sign, too.
func readAs(name string) string {
	if !strings.ContainsFunc(name, isSign) {
		return name
	}
	return canonical(strings.Map(func(r rune) rune {
		if isSign(r) {
			return '-'
		}
		return r
	}, name))
}

func isSign(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// forges reports whether a received header would be taken for one of ours. In its own spelling a webhook- header of
// a provider stays.
func forges(name, read string) bool {
	return strings.HasPrefix(read, hRelay) || read != name && strings.HasPrefix(read, hWebhook)
}

// impersonates reports whether a received header is not forwarded for a stranger.
func impersonates(name, read string) bool {
	if read != name && (dropped[read] || strings.HasPrefix(read, forwardedPrefix)) {
		return true
	}
	return unproven[read] || strings.HasPrefix(read, authRequestPrefix) || strings.HasPrefix(read, clientCertPrefix)
}

// Names of the headers that a delivery adds. net/http takes keys as they are; these are canonical.
const (
	hWebhookID        = "Webhook-Id"
	hWebhookTimestamp = "Webhook-Timestamp"
	hWebhookSignature = "Webhook-Signature"
	hRelay            = "Relay-"
	hWebhook          = "Webhook-"
	hRelayEndpoint    = "Relay-Endpoint-Id"
	hRelayDestination = "Relay-Destination-Id"
	hRelayDelivery    = "Relay-Delivery-Id"
	hRelayAttempt     = "Relay-Attempt"
	hRelayTrigger     = "Relay-Trigger"
	hRelayProof       = "Relay-Verification"
	hRelayHops        = event.HeaderHops
	hRelayPath        = event.HeaderPath
	hUserAgent        = "User-Agent"
)

// ownHeaders is how many of them a delivery has at most.
const ownHeaders = 15

// requestHeader builds the headers of one attempt: the received ones, then those of the destination,
// then ours, which nothing overrides. The signature covers the body as it is sent.
func requestHeader(w *event.Work, t *lane.Target, userAgent string, now time.Time) http.Header {
	e := w.Event
	n := len(e.Header) + len(t.Header) + ownHeaders
	h, values := make(http.Header, n), make([]string, 0, n)
	set := func(name, value string) { // all lists of one value share one piece of memory
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	hop := connectionNames(e.Header)
	proof := proofOf(e)
	stranger := proof == event.Proof(event.VerdictUnverified) || proof == event.Proof(event.VerdictObserved)
	var hops, path []string
	signed := false // by the provider, in the scheme that we use ourselves
	for _, f := range e.Header {
		if dropped[f.Name] || hop[f.Name] || strings.HasPrefix(f.Name, forwardedPrefix) {
			continue
		}
		switch f.Name {
		case hRelayHops:
			hops = append(hops, f.Value)
		case hRelayPath:
			path = append(path, f.Value)
		}
		read := readAs(f.Name)
		if forges(f.Name, read) || stranger && impersonates(f.Name, read) {
			continue
		}
		signed = signed || f.Name == hWebhookID || f.Name == hWebhookSignature
		name := safeName(f.Name)
		if before := h[name]; before != nil {
			h[name] = append(before, f.Value)
		} else {
			set(name, f.Value)
		}
	}
	for _, f := range t.Header {
		set(safeName(f.Name), f.Value)
	}
	eventID := e.ID.Text(id.Event)
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signature := sign.Sign(t.SigningSecrets(now), eventID, now, e.Body)
	set(hRelay+hWebhookID, eventID)
	set(hRelay+hWebhookTimestamp, timestamp)
	set(hRelay+hWebhookSignature, signature)
	if !signed {
		set(hWebhookID, eventID)
		set(hWebhookTimestamp, timestamp)
		set(hWebhookSignature, signature)
	}
	set(hRelayEndpoint, e.Endpoint)
	set(hRelayDestination, w.Dest)
	set(hRelayDelivery, id.DeliveryOf(e.ID, w.Dest))
	set(hRelayAttempt, strconv.Itoa(w.Attempt))
	set(hRelayTrigger, string(w.Trigger))
	set(hRelayProof, string(proof))
	set(hRelayHops, strconv.Itoa(event.Hops(hops)+1))
	set(hRelayPath, strings.Join(append(event.Path(path), e.Endpoint), ","))
	set(hUserAgent, userAgent)
	return h
}

// proofOf is what a destination is told of the event's signature. A rejected event is delivered after a replay; unless
// that has found its signature good, and says so in the verdict, nothing proves it.
func proofOf(e *event.Event) event.Proof {
	switch p := e.Proof(); p {
	case event.SentProof, event.Proof(event.VerdictVerified), event.Proof(event.VerdictObserved):
		return p
	default:
		return event.Proof(event.VerdictUnverified)
	}
}

// connectionNames are the headers that the received Connection header declares to be of the hop.
func connectionNames(fields []event.Field) map[string]bool {
	var names map[string]bool
	for _, f := range fields {
		if f.Name != "Connection" {
			continue
		}
		for name := range strings.SplitSeq(f.Value, ",") {
			if names == nil {
				names = make(map[string]bool)
			}
			names[canonical(strings.TrimSpace(name))] = true
		}
	}
	return names
}

// safeName is the key under which a header is given to net/http. A request with the canonical
// (X-)Idempotency-Key and without a body is sent again by net/http itself after some errors, which
// would be an attempt that nobody counts; written in lower case it is only a header.
func safeName(name string) string {
	if name == "Idempotency-Key" || name == "X-Idempotency-Key" {
		return strings.ToLower(name)
	}
	return name
}

// recorded returns headers for the attempt's row, by name, credentials masked: those of the destination
// by the rule of the configuration, so that a value that is hidden there does not show here.
func (c *client) recorded(h http.Header, added []event.Field) event.Lines {
	fields := make([]event.Field, 0, typicalHeaders)
	for key, values := range h {
		name := c.names.of(key)
		hidden := name.credential || slices.ContainsFunc(added, func(f event.Field) bool {
			return f.Name == name.canonical && config.CredentialHeader(f.Name)
		})
		for _, v := range values {
			if hidden {
				v = mask
			}
			fields = append(fields, event.Field{Name: name.canonical, Value: v})
		}
	}
	slices.SortStableFunc(fields, func(a, b event.Field) int { return strings.Compare(a.Name, b.Name) })
	return event.LinesOf(fields)
}

const (
	mask = "****"
	// typicalHeaders is how many lines the memory for recorded has room for at first.
	typicalHeaders = 32
)

func canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }
