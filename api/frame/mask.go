package frame

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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
func (c *Core) isToken(text string) bool { return c.ConfigReader.EndpointByToken(text) != nil }

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

// MaskCapabilities masks the parts of a URL that may be secret: query values, path segments that look like tokens,
// and parameters after a semicolon in a segment.
func MaskCapabilities(text string) string {
	return maskURL(text, maskParameters, func(string) bool { return true })
}

// MaskCredentials masks the query values whose names mark them as credentials.
func MaskCredentials(text string) string {
	return maskURL(text, func(segment string) string { return segment }, config.CredentialParameter)
}

// maskURL masks user information and fragment of a URL, its path segments with segment, and the query values whose
// names isSecret selects. It splits the text instead of parsing it, so that every text can be masked.
func maskURL(text string, segment func(string) string, isSecret func(name string) bool) string {
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
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i] = segment(segments[i])
	}
	masked := authority + strings.Join(segments, "/")
	if hasQuery {
		masked += "?" + maskQuery(query, isSecret)
	}
	if fragment {
		masked += "#" + Mask
	}
	return masked
}

// Lengths in characters from which a path segment may be a token: at minTokenLength if it has a digit or mixed case, as
// in the hooks of automation services, at maxWordsLength if it is anything but plain words.
const minTokenLength, maxWordsLength = 6, 16

// maskParameters masks a path segment that looks like a token, or the values of ;name=value in it.
func maskParameters(segment string) string {
	if masked := maskSegment(segment); masked != segment {
		return masked
	}
	parts := strings.Split(segment, ";")
	for i := 1; i < len(parts); i++ {
		parts[i] = maskQuery(parts[i], func(string) bool { return true })
	}
	return strings.Join(parts, ";")
}

func maskSegment(segment string) string {
	plain, err := url.PathUnescape(segment)
	if err != nil {
		plain = segment
	}
	if n := utf8.RuneCountInString(plain); n < minTokenLength || n < maxWordsLength && !mixed(plain) || plainWords(plain) {
		return segment
	}
	return Mask + url.PathEscape(strings.TrimPrefix(MaskText(plain), Mask))
}

// mixed reports whether a text has a digit, or letters of both cases.
func mixed(text string) bool {
	return strings.ContainsFunc(text, unicode.IsDigit) ||
		strings.ContainsFunc(text, unicode.IsUpper) && strings.ContainsFunc(text, unicode.IsLower)
}

// maxWord is the maximum number of letters of a plain word in a path; longer ones may be tokens.
const maxWord = 15

// plainWords reports whether a text consists of ordinary words joined by hyphens or underscores. Only the first
// letter of a word may be a capital, because tokens mix upper and lower case.
func plainWords(text string) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '-' || r == '_' }) {
		rest := strings.TrimLeft(word[:1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") + word[1:]
		if len(word) > maxWord || strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz") != "" {
			return false
		}
	}
	return true
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
