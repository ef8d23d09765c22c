package verify

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
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
