package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	maxBody = 256 << 10 // bytes of a request
	maxID   = 256       // bytes of the id of a message, in an error
	// maxTime bounds a request. A tool reads the store a few times, and each read ends within some seconds.
	maxTime = 30 * time.Second
	maxWait = 5 * time.Second // for other requests
)

// requestMethods are the methods of the protocol that are answered. Subscriptions, prompts and resources are not
// offered; pings and notifications belong to revisions before 2026-07-28.
var requestMethods = map[string]bool{
	"initialize": true, "notifications/initialized": true, "notifications/cancelled": true, "ping": true,
	"server/discover": true, "tools/list": true, "tools/call": true,
}

// keyOf is the key of the API key in the context of a request.
type keyOf struct{}

// serve answers a request after these checks: host name and origin (403), path (404), API key (401), requests in this
// minute (429), media type and size (400), one message (400) of a method that is offered. The SDK does none of the
// first three.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkOrigin(r); err != nil {
		return err
	}
	if r.URL.Path != Path {
		return web.Missing("there is no such path; the agent server is at " + Path)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &web.Error{Status: http.StatusMethodNotAllowed, Type: web.NotFound,
			Message: "only POST is answered here: there are no sessions and no streams"}
	}
	key, err := s.authenticate(r)
	if err != nil {
		return err
	}
	s.deps.Uses.RecordUse(key.Account, key.ID, key.Name, web.InfoOf(r).Client)
	if wait := s.deps.Reads.Claim(r.Context(), key.ID, requestsPerMinute); wait > 0 {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
			Message: "the API key may make 300 requests a minute here; wait as long as Retry-After says"}
	}
	m, err := readMessage(w, r)
	switch {
	case errors.Is(err, errNoJSON):
		writeRPCError(w, r, web.Invalid("", "%s", err.Error()), codeParse, nil)
		return nil
	case err != nil:
		return err
	}
	if !requestMethods[m.method] {
		refuseMethod(w, r, m)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), keyOf{}, key), maxTime)
	defer cancel()
	in := r.Clone(ctx)
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(m.body)), int64(len(m.body))
	// The SDK wants both types, of which it never sends the second here.
	in.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := s.run(in)
	if answer == nil {
		return err
	}
	return forward(w, answer)
}

// run answers a message, when it is its turn. A slot is held neither while the request arrives nor while its answer is
// sent: clients may be slow. The answer is nil if there is an error, or the client has gone.
func (s *Server) run(r *http.Request) (*web.Recorder, error) {
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-time.After(maxWait):
		return nil, web.ServiceUnavailable(nil, "this node answers as many agents as it can; try again")
	case <-r.Context().Done():
		return nil, nil
	}
	answer := &web.Recorder{}
	s.rpc.ServeHTTP(answer, r)
	return answer, nil
}

// checkOrigin refuses requests from pages of other websites, and unknown host names, against DNS rebinding. The answer
// is 403, as the protocol asks (Streamable HTTP, "Security Warning").
func (s *Server) checkOrigin(r *http.Request) error {
	message := ""
	if !s.hosts.Knows(r.Host) {
		message = "unknown host name; use the base URL, or ask the operator to add the name to RELAY_ALLOWED_HOSTS"
	} else if s.origins.Check(r) != nil {
		message = "requests from pages of other websites are refused"
	} else {
		return nil
	}
	return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope, Message: message}
}

// authenticate returns the API key of a request, or the 401.
func (s *Server) authenticate(r *http.Request) (*config.Key, error) {
	const advice = "set the Authorization header to Bearer <API_KEY>"
	text, ok := web.Bearer(r)
	if !ok {
		return nil, &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired, Message: advice}
	}
	key, err := s.deps.Keys.Authenticate(text)
	switch {
	case errors.Is(err, config.ErrLease):
		return nil, web.ServiceUnavailable(nil, "this node cannot confirm API keys at the moment; try again")
	case err != nil:
		if s.deps.Refusals != nil {
			s.deps.Refusals.CheckKey(text, r)
		}
		return nil, &web.Error{Status: http.StatusUnauthorized, Type: web.InvalidAPIKey,
			Message: "the API key is unknown, expired or revoked; " + advice}
	}
	agent := *key // a program that reads texts of others gets no ingest URL, whatever its key may see elsewhere
	agent.Agent = true
	return &agent, nil
}

// message is a message of JSON-RPC.
type message struct {
	body   []byte
	method string
	id     json.RawMessage // nil: a notification
}

var errNoJSON = errors.New("the body is no JSON; send a JSON-RPC message")

// readMessage returns the body of a request, one message of JSON-RPC. Arrays of messages are refused: limits and the
// audit log count calls.
func readMessage(w http.ResponseWriter, r *http.Request) (*message, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, web.Invalid("Content-Type", "must be application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &web.Error{Status: http.StatusRequestEntityTooLarge, Type: web.PayloadTooLarge,
			Message: fmt.Sprintf("a request may have at most %d bytes", tooLarge.Limit)}
	}
	if err != nil {
		return nil, web.Invalid("", "the body ended early")
	}
	if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		return nil, web.Invalid("", "send one message: arrays of messages are not answered")
	}
	if !json.Valid(body) {
		return nil, errNoJSON
	}
	members, err := web.ParseObject(nil, body)
	if err != nil {
		return nil, web.Invalid("", "the body must be a JSON-RPC message")
	}
	m := &message{body: body}
	for _, member := range members {
		if member.Name == "params" && !unambiguous(member.Value, "arguments") {
			return nil, web.Invalid("params", "must be an object in which no name is there twice")
		}
		switch {
		case member.Name == "method":
			m.method, _ = web.DecodeString(member.Value) // no text is no method
		case member.Name == "id":
			if m.id = json.RawMessage(member.Value); !isExactID(m.id) {
				return nil, web.Invalid("id", "must be a text, or an integer of at most 2^53-1 in size")
			}
		case strings.EqualFold(member.Name, "method"):
			return nil, web.Invalid("method", "must be written in lower case")
		}
	}
	if m.method == "" {
		return nil, web.Invalid("method", "is required: this server asks its clients nothing")
	}
	return m, nil
}

// isExactID reports whether an id is answered as it was sent. The SDK reads a number as a float64 and cuts it to an
// int64: a client would wait for the answer of its id forever, or take it for another one.
func isExactID(id json.RawMessage) bool {
	if len(id) == 0 || id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return true // no number
	}
	const most = 1<<53 - 1
	whole, zeros, _ := strings.Cut(string(id), ".") // some clients write 1.0
	n, err := strconv.ParseInt(whole, 10, 64)
	return err == nil && -most <= n && n <= most && strings.Trim(zeros, "0") == ""
}

// unambiguous reports whether no name is there twice in an object and in its member with that name: what a person or
// a proxy reads in a call is what is done.
func unambiguous(object []byte, within string) bool {
	members, err := web.ParseObject(nil, object)
	if err != nil {
		return false
	}
	for _, m := range members {
		if m.Name == within && len(m.Value) > 0 && m.Value[0] == '{' && !unambiguous(m.Value, "") {
			return false
		}
	}
	return true
}

// refuseMethod answers a request of a method that is not offered. Clients of older revisions read the error only with
// the status 200; revision 2026-07-28 wants 404. A notification is ignored.
func refuseMethod(w http.ResponseWriter, r *http.Request, m *message) {
	if m.id == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	status := http.StatusOK
	if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
		status = http.StatusNotFound
	}
	id := m.id
	if len(id) > maxID || id[0] == '{' || id[0] == '[' {
		id = nil // not one of JSON-RPC
	}
	e := &web.Error{Status: status, Type: web.InvalidRequest, Param: "method",
		Message: "is not offered; use tools/list and tools/call"}
	writeRPCError(w, r, e, codeMethodNotFound, id)
}

// forward writes what the SDK has answered. Its errors before it reads the message are plain text.
func forward(w http.ResponseWriter, answer *web.Recorder) error {
	h := answer.Header()
	if answer.Status >= 400 && !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		return &web.Error{Status: answer.Status, Type: web.InvalidRequest,
			Message: web.SanitizeLine(strings.TrimSpace(answer.Body.String()))}
	}
	for _, name := range []string{"Content-Type", "Allow"} {
		if v := h.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(cmp.Or(answer.Status, http.StatusOK))
	_, _ = w.Write(answer.Body.Bytes()) // an error means that the client has gone
	return nil
}

// Codes of JSON-RPC 2.0, and one for what the server refuses.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInternal       = -32603
	codeRefused        = -32000
)

// writeError writes an error as a JSON-RPC response. The data member is the error in the form of /v1.
func writeError(w http.ResponseWriter, r *http.Request, e *web.Error) {
	code := codeRefused
	switch {
	case e.Status >= http.StatusInternalServerError:
		code = codeInternal
	case e.Type == web.InvalidRequest:
		code = codeInvalidRequest
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeRPCError(w, r, e, code, nil)
}

// writeRPCError writes an error with the id of its request; nil: the message may not have been read.
func writeRPCError(w http.ResponseWriter, r *http.Request, e *web.Error, code int, id json.RawMessage) {
	type rpcError struct {
		Code    int           `json:"code"`
		Message string        `json:"message"`
		Data    web.ErrorView `json:"data"`
	}
	view := web.ViewOf(r, e)
	web.WriteJSON(w, e.Status, struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", id, rpcError{code, view.Message, view}})
}
