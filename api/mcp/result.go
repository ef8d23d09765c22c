package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	maxText     = 500       // characters of a text in a result
	maxElements = 100       // of an array
	maxResult   = 128 << 10 // bytes of a result
)

// shape says how an answer of /v1 is shown.
type shape struct {
	body    int      // bytes of the member body; 0: it is left out
	without []string // members that are left out
}

// render returns the text of a result, JSON, or an error with what the agent can do.
func (s *Server) render(x request, status int, header http.Header, body []byte) (string, error) {
	var v map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return "", errUnreadable
	}
	if status != http.StatusOK {
		return "", failure(v, header)
	}
	for _, name := range x.shape.without {
		delete(v, name)
	}
	keepNewestAttempts(v)
	s.maskCredentials(v)
	if text, ok := v["body"].(string); ok {
		delete(v, "body")
		if n := x.shape.body; n > 0 {
			masked, encoded := s.maskBody(text, v["body_encoding"])
			v["body"] = bodyText{masked, n, encoded}
		}
	}
	out, _ := clean(v).(map[string]any)
	if x.within != "" {
		out["dashboard_url"] = s.cfg.DashboardURL + x.within
	}
	if asOf := header.Get("Relay-Data-As-Of"); asOf != "" {
		out["complete_until"] = asOf // newer events may be missing
	}
	text := string(bytes.TrimSpace(web.Encode(out)))
	if len(text) > maxResult {
		return "", errors.New("the result is too large: ask for fewer rows with limit, or for fewer bytes with max_bytes")
	}
	return text, nil
}

var errUnreadable = errors.New("the answer could not be read; try again")

// keepNewestAttempts cuts the attempts of an event, which are in ascending order, and says so as the API does.
func keepNewestAttempts(v map[string]any) {
	if attempts, _ := v["attempts"].([]any); len(attempts) > maxElements {
		v["attempts"], v["attempts_truncated"] = attempts[len(attempts)-maxElements:], true
	}
}

const mask = "****"

// maskHeaders masks the values of headers whose names say that they are credentials: they were stored as they came.
func maskHeaders(v any) {
	headers, _ := v.(map[string]any)
	for name := range headers {
		if config.CredentialHeader(name) {
			headers[name] = mask
		}
	}
}

// maskBody masks the credentials in a body. One that is not UTF-8 is encoded in base64, in which none would be found.
func (s *Server) maskBody(text string, encoding any) (masked string, encoded bool) {
	if body, err := base64.StdEncoding.DecodeString(text); encoding == "base64" && err == nil {
		out, _ := s.leaks.MaskAll(nil, body)
		return base64.StdEncoding.EncodeToString(out), true
	}
	out, _ := s.leaks.MaskAll(nil, []byte(text))
	return string(out), false
}

// maskCredentials masks credentials in an event: in its headers and query by their names, in what the destinations
// answered also by their form. Of the requests to destinations nothing is shown: each has a signature that is valid.
func (s *Server) maskCredentials(v map[string]any) {
	maskHeaders(v["headers"])
	attempts, _ := v["attempts"].([]any) // in a list it is a number
	for _, each := range attempts {
		attempt, _ := each.(map[string]any)
		delete(attempt, "request")
		response, _ := attempt["response"].(map[string]any)
		maskHeaders(response["headers"])
		if text, ok := response["body"].(string); ok {
			masked, encoded := s.maskBody(text, response["body_encoding"])
			if response["body"] = masked; encoded {
				response["body"] = bodyText{masked, maxText, encoded}
			}
		}
	}
	if text, ok := v["query"].(string); ok && text != "" {
		pairs := strings.Split(text, "&")
		for i, pair := range pairs {
			name, _, _ := strings.Cut(pair, "=")
			plain, err := url.QueryUnescape(name)
			if err != nil || config.CredentialParameter(plain) { // an application may decode what Go does not
				pairs[i] = name + "=" + mask
			}
		}
		v["query"] = strings.Join(pairs, "&")
	}
}

// failure returns what /v1 says about a request that failed.
func failure(v map[string]any, header http.Header) error {
	e, _ := clean(v["error"]).(map[string]any)
	text := fmt.Sprint(e["type"], ": ")
	if param, _ := e["param"].(string); param != "" { // arguments have the names of parameters
		text += param + ": "
	}
	text += fmt.Sprint(e["message"])
	if after := header.Get("Retry-After"); after != "" {
		text += "; try again after " + after + " s"
	}
	return errors.New(text)
}

// bodyText is a body and how many of its bytes are shown. One that is encoded in base64 has no links, and would not be
// decoded if it were changed like a text.
type bodyText struct {
	text    string
	most    int
	encoded bool
}

// clean returns what is shown of the body. It is cut before its links are broken up, which makes it longer.
func (b bodyText) clean() string {
	text, end := b.text, ""
	if len(text) > b.most {
		most := b.most
		if b.encoded {
			most -= most % 4 // whole groups can be decoded
		}
		text, end = strings.ToValidUTF8(text[:most], ""), "…"
	}
	if !b.encoded {
		text = cleanText(text, math.MaxInt)
	}
	return text + end
}

// clean returns a decoded JSON value with texts that are safe to show to a model: see cleanText. Arrays are cut.
func clean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[cleanText(name, maxText)] = clean(member)
		}
		return out
	case []any:
		v = v[:min(len(v), maxElements)]
		out := make([]any, len(v))
		for i := range v {
			out[i] = clean(v[i])
		}
		return out
	case string:
		return cleanText(v, maxText)
	case bodyText:
		return v.clean()
	}
	return v
}

// noMarkup breaks up what Markdown and HTML make links or pictures of: a client that shows a picture would ask its
// address, which can carry data away. The first two are what web.BreakAddresses writes.
var noMarkup = strings.NewReplacer("[:]//", "[:]//", `[:]\/\/`, `[:]\/\/`, "//", "/ /", `\/\/`, `\/ \/`,
	"](", "] (", "][", "] [", "]:", "] :", "<", "< ")

// cleanText returns an untrusted text without invisible characters and links, cut to a number of characters.
func cleanText(s string, most int) string {
	s = noMarkup.Replace(web.BreakAddresses(web.SanitizeText(s)))
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return s
}

// record counts each call of a tool, and writes its entry of the audit log, whatever became of it. A panic in a tool
// becomes an error: the SDK runs tools on a goroutine of its own, where one would end the process.
func (s *Server) record(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if v := recover(); v != nil {
				stack := make([]byte, 16<<10)
				s.deps.Log.Error("agent server panicked", "method", method, "type", fmt.Sprintf("%T", v),
					"stack", string(stack[:runtime.Stack(stack, false)])) // without the value, which may hold secrets
				result, err = nil, errors.New("something failed on our side")
			}
			if call, ok := req.(*sdk.CallToolRequest); ok {
				s.recordCall(ctx, call, result, err)
			}
		}()
		return next(ctx, method, req)
	}
}

const (
	// recordTimeout bounds how long a call waits until its entry of the audit log is durable.
	recordTimeout = 2 * time.Second
	maxArgNames   = 20 // of an entry
)

// recordCall counts a call and writes its entry of the audit log. A call is answered without the entry while the log
// does not answer.
func (s *Server) recordCall(ctx context.Context, call *sdk.CallToolRequest, result sdk.Result, err error) {
	tool, outcome := call.Params.Name, "ok"
	if _, known := s.tools[tool]; !known {
		tool = "unknown" // the name is the client's, and may be anything
	}
	if r, ok := result.(*sdk.CallToolResult); err != nil || ok && r.IsError {
		outcome = "error"
	}
	s.calls.WithLabelValues(tool, outcome).Inc()
	key, _ := ctx.Value(keyOf{}).(*config.Key)
	var given map[string]json.RawMessage
	_ = json.Unmarshal(call.Params.Arguments, &given) // arguments of another type have no names
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, cleanText(name, 40))
	}
	slices.Sort(names)
	info, now := web.InfoFrom(ctx), s.deps.Now().UTC()
	e := audit.Entry{
		ID: audit.NewID(now, 0, info.ID, tool), Account: key.Account, At: now, Actor: audit.ActorOf(key.ID, key.Name),
		Action: audit.ToolCalled, EntityType: "tool", Entity: tool, Changes: names[:min(len(names), maxArgNames)],
		RequestID: info.ID, RemoteIP: info.Client,
	}
	record, err := e.Record()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		err = s.deps.Producer.ProduceSync(ctx, stream.AuditLog, 0, record)
	}
	if err != nil {
		s.deps.Log.Warn("cannot write the audit entry of an agent's call", "tool", tool, "key", key.ID, "error", err)
	}
}
