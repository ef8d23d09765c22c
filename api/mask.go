package api

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config"
)

// mask stands for what is not shown.
const mask = "****"

// visibleTail is how much of the end of a secret its mask shows.
const visibleTail = 4

// maskText shows the last four characters of a secret that is long enough to spare them.
func maskText(secret string) string {
	if len(secret) < 12 {
		return mask
	}
	return mask + secret[len(secret)-visibleTail:]
}

// viewer is who reads an answer. An ingest URL and the URLs of destinations are capabilities: whoever knows one can
// post there. Keys that may change nothing, and those of agents, see them masked.
type viewer struct{ capabilities bool }

func viewerOf(key *config.Key) viewer {
	return viewer{capabilities: key.Scope == config.ReadWrite && !key.Agent}
}

// ingestURL is where a provider posts.
func (v viewer) ingestURL(base, token string) string {
	if !v.capabilities {
		token = maskText(token)
	}
	return base + "/in/" + token
}

// destinationURL is a destination's as it is configured.
func (v viewer) destinationURL(text string) string {
	if v.capabilities {
		return text
	}
	return maskCapabilities(text)
}

// requestURL is one that an attempt has called or was sent on to. Nobody sees the credentials in it: attempts are what
// people copy into tickets.
func (v viewer) requestURL(text string) string {
	if v.capabilities {
		return maskCredentials(text)
	}
	return maskCapabilities(text)
}

// maskCapabilities masks what may be secret in a URL by its place: the values of the query, and the segments of the
// path that are long and no plain words, as tokens are, and what follows a semicolon in one.
func maskCapabilities(text string) string {
	return maskURL(text, maskParameters, func(string) bool { return true })
}

// maskCredentials masks the values of the query whose names say that they are credentials.
func maskCredentials(text string) string {
	return maskURL(text, func(segment string) string { return segment }, config.CredentialParameter)
}

// maskURL masks the user information and the fragment of a URL, the segments of its path by segment and the values of
// its query that hides says. It takes the text apart instead of parsing it: every text has a mask.
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
			authority = authority[:i+2] + mask + authority[at:]
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
		masked += "#" + mask
	}
	return masked
}

// minTokenLength is from how many characters on a segment of a path may be a token.
const minTokenLength = 16

// maskParameters masks a segment of a path as a whole, or the values of ;name=value in it as those of a query.
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
	if utf8.RuneCountInString(plain) < minTokenLength || plainWords(plain) {
		return segment
	}
	return mask + url.PathEscape(strings.TrimPrefix(maskText(plain), mask))
}

// maxWord is how many letters a word of a path has at most; longer ones may be tokens.
const maxWord = 15

// plainWords reports whether a text is words of lower-case letters joined by hyphens or underscores, as people write
// them. A capital may only begin a word: tokens mix them.
func plainWords(text string) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '-' || r == '_' }) {
		rest := strings.TrimLeft(word[:1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") + word[1:]
		if len(word) > maxWord || strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz") != "" {
			return false
		}
	}
	return true
}

// maskQuery masks values. A name without one may be the secret itself, and is masked as a value.
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
	return mask + url.QueryEscape(strings.TrimPrefix(maskText(plain), mask))
}
