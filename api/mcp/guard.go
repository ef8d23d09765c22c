package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	maxBody = 256 << 10 // bytes of a request
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

// serve answers a request after these checks: host name and origin (403), method (404), API key (401), media types and
// size (400), one message of a known method (400), calls in this minute (429). The SDK does none of the first three.
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
	body, err := readMessage(w, r)
	if err != nil {
		return err
	}
	if wait := s.deps.Reads.Claim(r.Context(), key.ID, requestsPerMinute); wait > 0 {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
			Message: "the API key may make 300 requests a minute here; wait as long as Retry-After says"}
	}
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), keyOf{}, key), maxTime)
	defer cancel()
	in := r.Clone(ctx)
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// The SDK wants both types, of which it never sends the second here.
	in.Header.Set("Accept", "application/json, text/event-stream")
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-time.After(maxWait):
		return web.ServiceUnavailable(nil, "this node answers as many agents as it can; try again")
	case <-ctx.Done():
		return nil // the client has gone
	}
	var answer web.Recorder
	s.rpc.ServeHTTP(&answer, in)
	return forward(w, &answer)
}

// checkOrigin refuses requests from pages of other websites, and unknown host names, against DNS rebinding (see the
// API's checkHost). The answer is 403, as the protocol asks (Streamable HTTP, "Security Warning").
func (s *Server) checkOrigin(r *http.Request) error {
	name := web.HostName(r.Host)
	if _, err := netip.ParseAddr(name); err != nil && name != "localhost" && !s.hosts[name] {
		return forbidden("unknown host name; use the base URL, or ask the operator to add the name to RELAY_ALLOWED_HOSTS")
	}
	if err := s.origins.Check(r); err != nil {
		return forbidden("requests from pages of other websites are refused")
	}
	return nil
}

func forbidden(message string) error {
	return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope, Message: message}
}

// authenticate returns the API key of a request, or the 401.
func (s *Server) authenticate(r *http.Request) (*config.Key, error) {
	const advice = "set the Authorization header to Bearer <API_KEY>"
	values := r.Header["Authorization"]
	if len(values) != 1 || values[0] == "" {
		return nil, &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired, Message: advice}
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return nil, &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired, Message: advice}
	}
	key, err := s.deps.Keys.Authenticate(strings.TrimSpace(text))
	switch {
	case errors.Is(err, config.ErrLease):
		return nil, web.ServiceUnavailable(nil, "this node cannot confirm API keys at the moment; try again")
	case err != nil:
		return nil, &web.Error{Status: http.StatusUnauthorized, Type: web.InvalidAPIKey,
			Message: "the API key is unknown, expired or revoked; " + advice}
	}
	return key, nil
}

// readMessage returns the body of a request, one message of JSON-RPC. Arrays of messages are refused: limits and the
// audit log count calls.
func readMessage(w http.ResponseWriter, r *http.Request) ([]byte, error) {
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
	members, err := web.ParseObject(nil, body)
	if err != nil {
		return nil, web.Invalid("", "the body must be a JSON-RPC message")
	}
	method := ""
	for _, m := range members {
		switch {
		case m.Name == "method":
			method, _ = web.DecodeString(m.Value) // no text is no method
		case strings.EqualFold(m.Name, "method"):
			return nil, web.Invalid("method", "must be written in lower case")
		}
	}
	switch {
	case method == "":
		return nil, web.Invalid("method", "is required: this server asks its clients nothing")
	case !requestMethods[method]:
		return nil, &web.Error{Status: http.StatusBadRequest, Type: web.InvalidRequest, Code: "method_not_found",
			Param: "method", Message: "is not offered; use tools/list and tools/call"}
	}
	return body, nil
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
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInternal       = -32603
	codeRefused        = -32000
)

// writeError writes an error as a JSON-RPC response. The data member is the error in the form of /v1.
func writeError(w http.ResponseWriter, r *http.Request, e *web.Error) {
	type rpcError struct {
		Code    int           `json:"code"`
		Message string        `json:"message"`
		Data    web.ErrorView `json:"data"`
	}
	view := web.ViewOf(r, e)
	code := codeRefused
	switch {
	case e.Code == "method_not_found":
		code = codeMethodNotFound
	case e.Status >= http.StatusInternalServerError:
		code = codeInternal
	case e.Type == web.InvalidRequest:
		code = codeInvalidRequest
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	web.WriteJSON(w, e.Status, struct {
		Version string   `json:"jsonrpc"`
		ID      *string  `json:"id"` // null: the message may not have been read
		Error   rpcError `json:"error"`
	}{"2.0", nil, rpcError{code, view.Message, view}})
}
