package verify

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// Bounds of a challenge.
const (
	maxChallenge     = 512  // characters that are ever echoed
	maxChallengeBody = 4096 // bytes; Slack's handshake has about 200
)

// Challenge returns the text with which to answer a provider that asks, before it sends events, whether the address is
// ours:
//   - Slack posts `{"type":"url_verification","challenge":…}`,
//   - WebSub and Meta get `?hub.challenge=…`,
//   - Dropbox gets `?challenge=…`.
//
// Only text of `[A-Za-z0-9._~+/=-]{1,512}` is ever given back, so the answer cannot carry markup or script of whoever
// asks. Anything else is not a challenge.
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
	// The look for the word keeps the JSON parser away from ordinary events.
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

// queryChallenge returns hub.challenge, else challenge, of a query; the first of each.
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
