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

// request is a read of /v1, whose paths the pages of the dashboard have too, and how the answer is shown.
type request struct {
	path    string
	query   url.Values
	page    string   // query of the page, from its question mark on
	body    int      // bytes of the member body; 0: it is left out
	without []string // members that are left out
}

// show reads of /v1, and returns the text of a result, JSON, or an error with what the agent can do.
func (s *Server) show(ctx context.Context, key *config.Key, x request) (string, error) {
	status, header, body := s.deps.API.Call(ctx, key, http.MethodGet, "/v1/"+x.path, x.query, nil, "")
	if status != http.StatusOK {
		return "", failure(body, header)
	}
	var v map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return "", errUnreadable
	}
	for _, name := range x.without {
		delete(v, name)
	}
	keepNewestAttempts(v)
	s.maskCredentials(v)
	if x.body == 0 {
		delete(v, "body")
	} else if body := s.maskBody(v, x.body); body != nil {
		if text, plain := body.(string); plain { // links are broken up after the cut: that makes it longer
			first, end := cut(text, x.body)
			body = verbatim(cleanText(first, math.MaxInt) + end)
		}
		v["body"] = body
	}
	out, _ := clean(v).(map[string]any)
	switch ofEvents := strings.HasPrefix(x.path, "events"); {
	case key.Tenant == "":
		out["dashboard_url"] = s.cfg.DashboardURL + "/app/" + x.path + x.page
	case ofEvents:
		out["dashboard_url"] = s.cfg.PortalURL + "/" + x.path + x.page
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

// verbatim is a text that is shown as it is.
type verbatim string

// maskBody returns the member body of an object without its credentials; nil if there is none. One that is not UTF-8 is
// encoded in base64, in which none would be found. It has no links, and would not be decoded if it were changed like a
// text, so it is cut to a number of bytes here.
func (s *Server) maskBody(v map[string]any, most int) any {
	text, ok := v["body"].(string)
	if !ok {
		return nil
	}
	if body, err := base64.StdEncoding.DecodeString(text); v["body_encoding"] == "base64" && err == nil {
		masked, _ := s.leaks.MaskAll(nil, body)
		text = base64.StdEncoding.EncodeToString(masked)
		if len(text) > most {
			most -= most % 4 // whole groups can be decoded
		}
		text, end := cut(text, most)
		return verbatim(text + end)
	}
	masked, _ := s.leaks.MaskAll(nil, []byte(text))
	return string(masked)
}

// cut returns the first bytes of a text, and what shows that there are more.
func cut(text string, most int) (first, end string) {
	if len(text) <= most {
		return text, ""
	}
	return strings.ToValidUTF8(text[:most], ""), "…"
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
		if body := s.maskBody(response, maxText); body != nil {
			response["body"] = body
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
func failure(body []byte, header http.Header) error {
	var v struct{ Error web.ErrorView }
	if json.Unmarshal(body, &v) != nil {
		return errUnreadable
	}
	text := cleanText(v.Error.Type, maxText) + ": "
	if v.Error.Param != "" { // arguments have the names of parameters
		text += cleanText(v.Error.Param, maxText) + ": "
	}
	text += cleanText(v.Error.Message, maxText)
	if after := header.Get("Retry-After"); after != "" {
		text += "; try again after " + after + " s"
	}
	return errors.New(text)
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
