package verify

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Limits of a challenge.
const (
	maxChallenge     = 512  // characters of an answer
	maxChallengeBody = 4096 // bytes; Slack's handshake has about 200
)

// Challenge returns the text that answers a URL verification: before it sends events, a provider checks that the URL
// expects them. It returns false if the request is not a challenge:
//   - Slack posts `{"type":"url_verification","challenge":…}`,
//   - WebSub and Meta get `?hub.challenge=…`,
//   - Dropbox gets `?challenge=…`.
//
// Only text that matches `[A-Za-z0-9._~+/=-]{1,512}` is returned, so the answer cannot contain markup or a script. A
// request with any other text is not a challenge.
func Challenge(r Request) (string, bool) {
	var text string
	switch r.Method {
	case http.MethodPost:
		text = slackChallenge(r.Body)
	case http.MethodGet:
		text = queryChallenge(r.URL)
	}
	if text == "" || len(text) > maxChallenge || !everyByte(text, isChallenge) {
		return "", false
	}
	return text, true
}

func slackChallenge(body []byte) string {
	// Ordinary events do not contain the word and are not parsed as JSON.
	if len(body) > maxChallengeBody || !bytes.Contains(body, []byte("url_verification")) {
		return ""
	}
	var handshake struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(body, &handshake) != nil || handshake.Type != "url_verification" {
		return ""
	}
	return handshake.Challenge
}

// queryChallenge returns the first hub.challenge of the address's query, otherwise its first challenge; empty if it has
// neither.
func queryChallenge(address string) string {
	_, query, _ := strings.Cut(address, "?")
	var dropbox string
	for item := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(item, "=")
		if name != "hub.challenge" && name != "challenge" {
			continue
		}
		text, err := url.QueryUnescape(value)
		if err != nil {
			continue
		}
		if name == "hub.challenge" {
			return text
		}
		if dropbox == "" {
			dropbox = text
		}
	}
	return dropbox
}

func isChallenge(c byte) bool {
	return isBase64(c) || strings.IndexByte("._~-", c) >= 0
}

// handshake is a signed request with which a provider checks the URL.
type handshake struct {
	At, Is string // the place and its value that make a request a handshake
	Text   string // place of the text that the answer repeats
	// Answer has {text} for that text, and {mac} for its HMAC-SHA256 in hex.
	Answer Answer
	// Get is a place of a URL that is requested before the answer. Only URLs that match GetURL are.
	Get    string
	GetURL string `json:"get_url"`
}

// Reply is how to answer a handshake.
type Reply struct {
	Answer
	Get string // URL to request before the answer; "" for none
}

// Handshake returns how to answer a request that checks the URL. Call it after Check: answers of Discord and SNS are
// only for the provider. secrets are those of the endpoint, in clear text.
func Handshake(provider string, secrets []string, r Request) (reply Reply, ok bool) {
	h := ByName(provider).Handshake
	if h == nil || r.Method != http.MethodPost || len(r.Body) > maxChallengeBody {
		return reply, false
	}
	l := layout{}
	for _, place := range []string{h.At, h.Text, h.Get} {
		if path, inBody := strings.CutPrefix(place, bodyPlace); inBody {
			l.paths = append(l.paths, path)
		}
	}
	l.readBody(r)
	if value, _ := l.value(r, h.At); value != h.Is {
		return reply, false
	}
	text, _ := l.value(r, h.Text)
	if text != "" && (len(text) > maxChallenge || !everyByte(text, isChallenge)) {
		return reply, false
	}
	mac := ""
	if strings.Contains(h.Answer.Body, "{mac}") {
		if len(secrets) == 0 || text == "" {
			return reply, false
		}
		// The text has no colon, so it is nothing that Zoom signs.
		mac = hex.EncodeToString(hexSHA256().appendSum(nil, secrets[0], message{head: text}))
	}
	reply.Answer = Answer{Status: cmp.Or(h.Answer.Status, http.StatusOK),
		ContentType: cmp.Or(h.Answer.ContentType, jsonType),
		Body:        strings.NewReplacer("{text}", text, "{mac}", mac).Replace(h.Answer.Body)}
	if h.Get != "" {
		reply.Get, _ = l.value(r, h.Get)
		if ok, err := regexp.MatchString(`^(?:`+h.GetURL+`)$`, reply.Get); !ok || err != nil {
			return reply, false
		}
	}
	return reply, true
}
