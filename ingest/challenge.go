package ingest

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/verify"
)

// challengeAnswer returns the text that answers a provider's URL verification.
//
// A GET is never an event, so every endpoint answers challenges in the query. Slack posts its challenge, which another
// provider could send as an event: endpoints of other providers store it as an event, and a generic endpoint answers it
// only if the body has no members but those of Slack's handshake.
func challengeAnswer(ep *config.Endpoint, req verify.Request) (string, bool) {
	if req.Method == http.MethodPost && ep.Provider != verify.Slack && ep.Provider != verify.Generic {
		return "", false
	}
	text, ok := verify.Challenge(req)
	if ok && req.Method == http.MethodPost && ep.Provider == verify.Generic && !isSlackHandshake(req.Body) {
		return "", false
	}
	return text, ok
}

// isSlackHandshake reports whether body is a JSON object with no members but those of Slack's url_verification.
func isSlackHandshake(body []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return false
	}
	for name := range members {
		switch name {
		case "type", "challenge", "token":
		default:
			return false
		}
	}
	return true
}

// writeChallenge writes the text as text/plain. verify.Challenge has restricted its characters.
func writeChallenge(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // a provider whose connection failed asks again
}
