package ingest

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
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

// providerReply returns how to answer a request with which the provider checks the URL. A signature that is
// configured must be right, and without one nothing is requested.
func providerReply(ep *config.Endpoint, p *prepared, v event.Verdict, req verify.Request) (
	reply verify.Reply, ok bool) {
	var secrets []string
	if p.verify != nil {
		secrets = p.verify.Secrets
	}
	reply, ok = verify.Handshake(ep.Provider, secrets, req)
	for i := range secrets { // the one that the provider has, while it changes, signs the answer too
		one := *p.verify
		if one.Secrets = secrets[i : i+1]; ok && len(secrets) > 1 && verify.Check(one, req) == "" {
			reply, ok = verify.Handshake(ep.Provider, one.Secrets, req)
			break
		}
	}
	return reply, ok && (v == event.VerdictVerified || p.verify == nil && reply.Get == "")
}

// answerHandshake writes the answer, after the request that confirms the URL.
func (g *Ingest) answerHandshake(w http.ResponseWriter, r *http.Request, reply verify.Reply) error {
	if reply.Get != "" {
		status, _, err := g.fetcher.get(r.Context(), reply.Get)
		if err != nil || status != http.StatusOK {
			return web.ServiceUnavailable(err, "the subscription could not be confirmed; send the request again")
		}
	}
	w.Header().Set("Content-Type", reply.ContentType)
	w.WriteHeader(reply.Status)
	_, _ = io.WriteString(w, reply.Body) // a provider whose connection failed asks again
	return nil
}

// writeChallenge writes the text as text/plain. verify.Challenge has restricted its characters.
func writeChallenge(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // a provider whose connection failed asks again
}
