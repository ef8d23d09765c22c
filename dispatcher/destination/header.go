package destination

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
)

// neverForwarded are received headers that are not forwarded: hop-by-hop headers (RFC 9110, 7.6.1), headers of one
// request, and headers by which a proxy describes its client.
var neverForwarded = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Host": true, "Content-Length": true, "Expect": true, "Accept-Encoding": true,
	"Forwarded": true, "X-Real-Ip": true, "User-Agent": true,
}

const forwardedPrefix = "X-Forwarded-"

// credentialHeaders are received headers that are forwarded only if the endpoint allows them: a receiver may take them
// for those of the relay.
var credentialHeaders = map[string]bool{"Authorization": true, "Cookie": true, "X-Api-Key": true}

// contentHeaders describe the body, or the request for a trace. They are forwarded whatever the endpoint allows; so are
// names that begin with Content-.
var contentHeaders = map[string]bool{
	"Accept": true, "Date": true, "Digest": true, "Traceparent": true, "Tracestate": true,
}

// forwards reports whether a received header that impersonates nobody is forwarded; read is its variableName. Of a
// provider whose headers are known these are forwarded, and those that the endpoint allows beside them. Otherwise all
// are, or only those that the endpoint allows if it names any.
func (o *Opened) forwards(name, read string) bool {
	switch {
	case contentHeaders[name] || strings.HasPrefix(name, "Content-") || slices.Contains(o.AllowHeaders, name) ||
		verify.HasPrefix(o.AllowHeaders, name):
		return true
	case o.Provider != nil:
		return o.Provider.SendsHeader(name)
	}
	return len(o.AllowHeaders) == 0 && !credentialHeaders[read]
}

// variableName is the name by which a receiver may read a header. Receivers that pass headers as variables (CGI, WSGI,
// PHP) read Relay_Hops as Relay-Hops; some treat any other punctuation the same way.
func variableName(name string) string {
	if !strings.ContainsFunc(name, isPunctuation) {
		return name
	}
	return Canonical(strings.Map(func(r rune) rune {
		if isPunctuation(r) {
			return '-'
		}
		return r
	}, name))
}

func isPunctuation(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// forgesOwnHeader reports whether a destination could take a received header for one of the relay's; read is its
// variableName. A provider's own headers webhook-… are forwarded if they are spelled exactly so.
func forgesOwnHeader(name, read string) bool {
	return strings.HasPrefix(read, prefixRelay) || read != name && strings.HasPrefix(read, prefixWebhook)
}

// impersonates reports whether a sender could pose as someone else with a received header, so that it is not forwarded.
func impersonates(name, read string) bool {
	if read != name && (neverForwarded[read] || strings.HasPrefix(read, forwardedPrefix)) {
		return true
	}
	return verify.Identifies(read)
}

// Names of the headers that a delivery adds. net/http uses keys as they are; these are canonical.
const (
	headerWebhookID        = "Webhook-Id"
	headerWebhookTimestamp = "Webhook-Timestamp"
	headerWebhookSignature = "Webhook-Signature"
	prefixRelay            = "Relay-"
	prefixWebhook          = "Webhook-"
	headerEndpoint         = "Relay-Endpoint-Id"
	headerDestination      = "Relay-Destination-Id"
	headerDelivery         = "Relay-Delivery-Id"
	headerAttempt          = "Relay-Attempt"
	headerTrigger          = "Relay-Trigger"
	headerVerification     = "Relay-Verification"
	headerHops             = event.HeaderHops
	headerPath             = event.HeaderPath
	HeaderUserAgent        = "User-Agent"
)

// maxOwnHeaders is how many headers the relay adds to a request, at most.
const maxOwnHeaders = 21

// Header builds the headers of one attempt: the received ones, then those of the destination, then the relay's
// own. Nothing overrides these, except that a destination may set its User-Agent. The signature covers the body as it
// is sent. Beside a transformed body, received headers that describe the stored one are left out.
func Header(
	work *event.Work, content Content, target *Opened, userAgent string, now time.Time,
) http.Header {
	ev := work.Event
	n := len(ev.Header) + len(target.Header) + maxOwnHeaders
	h, values := make(http.Header, n), make([]string, 0, n)
	set := func(name, value string) { // all one-element slices share one array
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	hopByHop := connectionNames(ev.Header)
	received := ev.Source == event.SourceProvider
	var hops, path []string
	signed := false // by the provider, with Standard Webhooks headers as the relay uses them
	for _, f := range ev.Header {
		if neverForwarded[f.Name] || hopByHop[f.Name] || strings.HasPrefix(f.Name, forwardedPrefix) {
			continue
		}
		switch f.Name {
		case headerHops:
			hops = append(hops, f.Value)
		case headerPath:
			path = append(path, f.Value)
		}
		read := variableName(f.Name)
		if content.isMade() && (describesStoredBody(read) || f.Name == content.Signature) ||
			content.Format != "" && strings.HasPrefix(read, prefixCloudEvents) || target.setsSignature(read) {
			continue
		}
		if forgesOwnHeader(f.Name, read) || received && (impersonates(f.Name, read) || !target.forwards(f.Name, read)) {
			continue
		}
		signed = signed || !content.isMade() && (f.Name == headerWebhookID || f.Name == headerWebhookSignature)
		name := safeName(f.Name)
		if before := h[name]; before != nil {
			h[name] = append(before, f.Value)
		} else {
			set(name, f.Value)
		}
	}
	set(HeaderUserAgent, userAgent) // a header of the destination may replace it
	for _, f := range target.Header {
		set(safeName(f.Name), f.Value)
	}
	for _, f := range content.Header {
		set(safeName(f.Name), f.Value)
	}
	eventID := ev.ID.Text(id.Event)
	names := [][3]string{ownNames, standardNames}
	if signed {
		names = names[:1]
	}
	target.sign(set, eventID, now, content, names...)
	set(headerEndpoint, ev.Endpoint)
	set(headerDestination, work.Dest)
	set(headerDelivery, id.DeliveryOf(ev.ID, work.Dest))
	set(headerAttempt, strconv.Itoa(work.Attempt))
	set(headerTrigger, string(work.Trigger))
	set(headerVerification, string(proofOf(ev)))
	set(headerHops, strconv.Itoa(event.Hops(hops)+1))
	set(headerPath, strings.Join(append(event.Path(path), ev.Endpoint), ","))
	return h
}

// proofOf is what the header Relay-Verification says about the signature of the event. A rejected event is delivered
// after a replay. It counts as unverified unless the replay has verified it, which its verdict then says.
func proofOf(ev *event.Event) event.Proof {
	switch p := ev.Proof(); p {
	case event.SentProof, event.Proof(event.VerdictVerified), event.Proof(event.VerdictObserved):
		return p
	default:
		return event.Proof(event.VerdictUnverified)
	}
}

// connectionNames are the headers that the received Connection header names as hop-by-hop.
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
			names[Canonical(strings.TrimSpace(name))] = true
		}
	}
	return names
}

// safeName is the key under which a header is passed to net/http. net/http itself repeats a request without a body
// that has the canonical (X-)Idempotency-Key after some errors. That would be an attempt that is not recorded; in
// lower case it is an ordinary header.
func safeName(name string) string {
	if name == "Idempotency-Key" || name == "X-Idempotency-Key" {
		return strings.ToLower(name)
	}
	return name
}

// Recorded returns headers for the recorded attempt, sorted by name, with credentials masked. Headers of the
// destination (added) are masked by the rule of the configuration, so that a value that is hidden there is hidden
// here.
func (n *Names) Recorded(h http.Header, added []event.Field) event.Lines {
	fields := make([]event.Field, 0, typicalHeaders)
	for key, values := range h {
		name := n.lookup(key)
		hidden := name.credential || slices.ContainsFunc(added, func(f event.Field) bool {
			return f.Name == name.canonical && config.CredentialHeader(f.Name)
		})
		for _, v := range values {
			if hidden {
				v = Mask
			}
			fields = append(fields, event.Field{Name: name.canonical, Value: v})
		}
	}
	slices.SortStableFunc(fields, func(a, b event.Field) int { return strings.Compare(a.Name, b.Name) })
	return event.LinesOf(fields)
}

const (
	// Mask replaces the value of a header that usually carries a secret.
	Mask = "****"
	// typicalHeaders is the initial capacity of recorded headers.
	typicalHeaders = 32
)

// Canonical returns the canonical form of a header name.
func Canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }

// describesStoredBody reports whether a received header says something about the bytes of the stored body, which a
// transformed one does not have: its signature, its digest or its encoding.
func describesStoredBody(name string) bool {
	switch name {
	case "Content-Encoding", "Content-Md5", headerWebhookID, headerWebhookTimestamp:
		return true
	}
	for _, part := range []string{"Signature", "Hmac", "Digest"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
