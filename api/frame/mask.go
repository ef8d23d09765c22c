package frame

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/secrets"
)

// Mask replaces the hidden part of a secret.
const Mask = "****"

// VisibleTail is how many bytes at the end of a secret its mask shows.
const VisibleTail = 4

// MaskText returns the mask of a secret. It shows the last four bytes if the secret has 12 or more.
func MaskText(secret string) string {
	if len(secret) < 12 {
		return Mask
	}
	return Mask + secret[len(secret)-VisibleTail:]
}

// Viewer is the reader of a response. Ingest URLs and destination URLs are capabilities: anyone who knows one can
// post to it. Read-only keys and agent keys see them masked.
type Viewer struct {
	Capabilities bool
	isToken      func(text string) bool // of the ingest URL of an endpoint; nil: tokens in texts are masked elsewhere
}

// ViewerOf returns the reader of a response without texts of others.
func ViewerOf(key *config.Key) Viewer {
	return Viewer{Capabilities: key.Scope == config.ReadWrite && !key.Agent}
}

// ViewerOf returns the reader of a response that encodes or cuts texts of others: their tokens are masked before.
func (c *Core) ViewerOf(key *config.Key) Viewer {
	by := ViewerOf(key)
	by.isToken = c.isToken
	return by
}

// isToken reports whether a text is the token of an ingest URL, or one that was replaced and still counts.
func (c *Core) isToken(text string) bool { return c.Config.EndpointByToken(text) != nil }

// MaskTokens masks the tokens of ingest URLs in a text of others: a provider may send the URL that it calls, in a body
// or in headers such as Referer.
func (v Viewer) MaskTokens(text []byte) []byte {
	if v.Capabilities || v.isToken == nil {
		return text
	}
	return secrets.MaskIngestTokens(text, v.isToken)
}

// tokenMasker masks the tokens of ingest URLs in a response, wherever they stand. It relies on handlers that write all
// of a text at once.
type tokenMasker struct {
	http.ResponseWriter
	by     Viewer
	status int // 0: not set; it is sent with the first bytes, which decide on the length
	sent   bool
}

// WriteHeader remembers the first status.
func (m *tokenMasker) WriteHeader(status int) { m.status = cmp.Or(m.status, status) }

func (m *tokenMasker) Write(text []byte) (int, error) {
	masked := m.by.MaskTokens(text)
	if h := m.Header(); !m.sent && h.Get("Content-Length") != "" {
		h.Set("Content-Length", strconv.Itoa(len(masked)))
	}
	m.finish()
	if _, err := m.ResponseWriter.Write(masked); err != nil {
		return 0, err
	}
	return len(text), nil
}

// finish sends the status if no bytes were written.
func (m *tokenMasker) finish() {
	if !m.sent && m.status != 0 {
		m.ResponseWriter.WriteHeader(m.status)
	}
	m.sent = true
}

// IngestPath precedes the token in an ingest URL.
const IngestPath = "/in/"

// IngestURL returns the URL to which a provider posts events.
func (v Viewer) IngestURL(base, token string) string {
	if !v.Capabilities {
		token = MaskText(token)
	}
	return base + IngestPath + token
}

// URLToken returns the token in an ingest URL, "" if there is none.
func URLToken(url string) string {
	address, _, _ := strings.Cut(url, "?")
	i := strings.LastIndex(address, IngestPath)
	if i < 0 {
		return ""
	}
	return address[i+len(IngestPath):]
}

// DestinationURL returns the configured URL of a destination.
func (v Viewer) DestinationURL(text string) string {
	if v.Capabilities {
		return text
	}
	return MaskCapabilities(text)
}

// RequestURL returns the URL of an attempt or a redirect. Its credentials are masked for every viewer, because
// attempts are often copied into tickets.
func (v Viewer) RequestURL(text string) string {
	if v.Capabilities {
		return MaskCredentials(text)
	}
	return MaskCapabilities(text)
}

// MaskCapabilities returns what of a URL can be no secret: its scheme, the registered domain of its host, and its port.
// Tokens may stand in labels of the host, in short and readable parts of the path, and in the query.
func MaskCapabilities(text string) string {
	i := strings.Index(text, "//")
	if i < 0 || i > 0 && text[i-1] != ':' { // no host
		if text == "" || text == "/" {
			return text
		}
		return "/" + Mask
	}
	authority, rest := text[i+2:], ""
	if j := strings.IndexAny(authority, "/?#"); j >= 0 {
		authority, rest = authority[:j], authority[j:]
	}
	_, host, _ := cutLast(authority, "@")
	masked := text[:i+2] + registeredDomain(host)
	if rest == "" || rest == "/" {
		return masked + rest
	}
	return masked + "/" + Mask
}

// cutLast is strings.Cut at the last separator: without one, all is after it.
func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return "", text, false
}

// registeredDomain masks the labels of a host before its registered domain. Addresses and names of a private network
// stay.
func registeredDomain(host string) string {
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name, port = host[:i], host[i:]
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return host
	}
	suffix, isICANN := publicsuffix.PublicSuffix(strings.ToLower(name))
	for !isICANN && strings.Contains(suffix, ".") { // such as github.io, of a provider whose customers have the labels
		_, suffix, _ = strings.Cut(suffix, ".")
		suffix, isICANN = publicsuffix.PublicSuffix(suffix)
	}
	before := strings.TrimSuffix(name[:max(0, len(name)-len(suffix))], ".")
	sub := strings.LastIndexByte(before, '.')
	if sub < 0 {
		return host
	}
	return Mask + name[sub:] + port
}

// MaskCredentials masks the query values whose names mark them as credentials.
func MaskCredentials(text string) string {
	return maskURL(text, config.CredentialParameter)
}

// maskURL masks user information and fragment of a URL, and the query values whose names isSecret selects. It splits
// the text instead of parsing it, so that every text can be masked.
func maskURL(text string, isSecret func(name string) bool) string {
	text, _, fragment := strings.Cut(text, "#")
	text, query, hasQuery := strings.Cut(text, "?")
	authority, path := "", text
	if i := strings.Index(text, "//"); i == 0 || i > 0 && text[i-1] == ':' {
		end := len(text)
		if j := strings.IndexByte(text[i+2:], '/'); j >= 0 {
			end = i + 2 + j
		}
		authority, path = text[:end], text[end:]
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			authority = authority[:i+2] + Mask + authority[at:]
		}
	}
	masked := authority + path
	if hasQuery {
		masked += "?" + maskQuery(query, isSecret)
	}
	if fragment {
		masked += "#" + Mask
	}
	return masked
}

// maskQuery masks query values. A name without a value may itself be the secret and is masked like one.
func maskQuery(query string, isSecret func(name string) bool) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		plainName, err := url.QueryUnescape(name)
		if err != nil {
			plainName = name
		}
		switch {
		case pair == "" || !isSecret(plainName):
		case value == "":
			pairs[i] = maskValue(name)
		default:
			pairs[i] = name + "=" + maskValue(value)
		}
	}
	return strings.Join(pairs, "&")
}

func maskValue(value string) string {
	plain, err := url.QueryUnescape(value)
	if err != nil {
		plain = value
	}
	return Mask + url.QueryEscape(strings.TrimPrefix(MaskText(plain), Mask))
}
