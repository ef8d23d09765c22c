package ingest

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/verify"
)

// challenge is the text with which to answer a provider that asks whether the address is ours.
//
// A GET is never an event, so every endpoint answers the challenges in a query. Slack's comes as a POST, and
// nothing that may be an event of somebody else is taken for it: endpoints of other providers store it like
// anything else, and a generic one answers it only when it is Slack's handshake and nothing more.
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

// isSlackHandshake reports a JSON object with no other members than those of Slack's url_verification.
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

// writeChallenge gives the text back as nothing but text. verify.Challenge has bounded its characters.
func writeChallenge(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // a client that left will ask again
}
