package frame

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// APIError is an error response of a handler of /v1.
type APIError struct {
	Status     int
	Type       string
	Message    string // without the name of the parameter
	Param      string // the parameter at fault, for its field in a form; may be empty
	Code       string
	RequestID  string
	RetryAfter time.Duration
}

func (e *APIError) Error() string { return strconv.Itoa(e.Status) + " " + e.Type + ": " + e.Message }

// webError returns the error for a page. It has no cause: the API has logged it.
func (e *APIError) webError() *web.Error {
	message := e.Message
	if e.Param != "" {
		message = e.Param + " " + message
	}
	return &web.Error{Status: e.Status, Type: e.Type, Code: e.Code, RetryAfter: e.RetryAfter, Message: Sentence(message)}
}

// Get calls GET path of the API as the person and decodes the answer into out. The error is an [*APIError].
func (v *Visit) Get(path string, query url.Values, out any) error {
	return v.call(v.R.Context(), http.MethodGet, path, query, nil, "", out)
}

// Send calls a changing method of the API with body, encoded as JSON, and decodes the answer into out. body and out may
// be nil. nonce is that of the form, the Idempotency-Key of a POST. The error is an [*APIError].
func (v *Visit) Send(method, path string, body any, nonce string, out any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode the body of %s: %w", method, err)
		}
	}
	return v.call(v.R.Context(), method, path, nil, text, nonce, out)
}

// GetSoon is get for what a page can do without: it waits a second for the answer.
func (v *Visit) GetSoon(path string, out any) error {
	ctx, cancel := context.WithTimeout(v.R.Context(), time.Second)
	defer cancel()
	return v.call(ctx, http.MethodGet, path, nil, nil, "", out)
}

// call calls the API as the person. If the store is behind, the page says as of when its data is.
func (v *Visit) call(ctx context.Context, method, path string, query url.Values, body []byte, nonce string,
	out any) error {
	path = v.Fill(path)
	ctx = config.WithSessionCheck(ctx, v.CheckSession)
	status, header, text := v.Deps.API.Call(ctx, v.Principal(), method, path, query, body, nonce)
	if at := header.Get("Relay-Data-As-Of"); at != "" && (v.AsOf == "" || at < v.AsOf) {
		v.AsOf = at // the format sorts by time
	}
	v.Replayed = v.Replayed || header.Get("Idempotent-Replayed") == "true"
	if status < 200 || status > 299 {
		return decodeError(status, header, text)
	}
	if out == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(out); err != nil {
		return fmt.Errorf("decode the answer of %s %s: %w", method, web.InfoOf(v.R).Route, err)
	}
	return nil
}

// decodeError reads the JSON error of the API.
func decodeError(status int, header http.Header, text []byte) *APIError {
	var body struct {
		Error web.ErrorView `json:"error"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		body.Error = web.ErrorView{Type: web.Internal, Message: "the service failed"}
	}
	e := &APIError{Status: status, Type: body.Error.Type, Param: body.Error.Param, Code: body.Error.Code,
		RequestID: body.Error.RequestID, Message: body.Error.Message}
	if e.Param != "" {
		e.Message = strings.TrimPrefix(e.Message, e.Param+": ")
	}
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
