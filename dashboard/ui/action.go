package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// ReadAt returns a function that reads the resource at path in the API. path may contain variables of the route.
func ReadAt[T any](path string) func(*Visit) (*T, error) {
	return func(v *Visit) (*T, error) {
		out := new(T)
		return out, v.Get(path, nil, out)
	}
}

// Show returns the handler of a page about the resource that read returns.
func Show[T any](read func(*Visit) (T, error), page func(*Visit, T) error) func(*Visit) error {
	return func(v *Visit) error {
		x, err := read(v)
		if err != nil {
			return err
		}
		return page(v, x)
	}
}

// Submit returns the handler of a form.
func Submit(do func(*Visit, *Form) error) func(*Visit) error {
	return func(v *Visit) error {
		f, err := v.Form()
		if err != nil {
			return err
		}
		return do(v, f)
	}
}

// Change returns the handler of a form about the resource that read returns.
func Change[T any](read func(*Visit) (T, error), do func(*Visit, *Form, T) error) func(*Visit) error {
	return Submit(func(v *Visit, f *Form) error {
		x, err := read(v)
		if err != nil {
			return err
		}
		return do(v, f, x)
	})
}

// LeadTo returns a handler that redirects to another page.
func LeadTo(path string) func(*Visit) error {
	return func(v *Visit) error { return v.Redirect(path, "") }
}

// Button returns the handler of a button: it makes one call of the API, such as PATCH /v1/drains/{drain}, and opens the
// page at path to with a message. Both paths may contain variables of the route.
func Button(call string, body map[string]any, to, message string) func(*Visit) error {
	return Submit(func(v *Visit, f *Form) error {
		if err := v.Do(call, f, body, nil); err != nil {
			return err
		}
		return v.Redirect(v.Fill(to), message)
	})
}

// Create returns the handler of a form that creates a resource, and opens the resource's page with a message. again
// shows a rejected form with its errors; nil: the error is returned.
func Create(call string, body func(*Visit, *Form) Object, again func(*Visit, *Form) error,
	message string) func(*Visit) error {
	return Submit(func(v *Visit, f *Form) error {
		var made struct{ ID string }
		err := v.Do(call, f, body(v, f), &made)
		if again == nil && err != nil {
			return err
		}
		return v.Answer(f, err, func() error { return again(v, f) }, func() error {
			return v.Redirect(PageOf(made.ID), message)
		})
	})
}

// Object is an object of the API.
type Object = map[string]any

// Do makes a changing call of the API, such as PATCH /v1/drains/{drain}, for a form: its nonce is the Idempotency-Key
// of a POST, so that a second submit does nothing twice.
func (v *Visit) Do(call string, f *Form, body map[string]any, out any) error {
	method, path, _ := strings.Cut(call, " ")
	switch {
	case method == http.MethodDelete:
		return v.Send(method, path, nil, "", out)
	case method == http.MethodPost && body == nil:
		body = Object{}
	}
	nonce := ""
	if method == http.MethodPost {
		nonce = f.Nonce
	}
	return v.Send(method, path, body, nonce, out)
}

// Fill puts the variables of the route into a path.
func (v *Visit) Fill(path string) string {
	if !strings.Contains(path, "{") {
		return path
	}
	pairs := make([]string, 0, 2*len(v.Vars))
	for name, value := range v.Vars {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(path)
}

// Refused reports whether the API has refused or not confirmed the call of a form, and shows the reason in the form. It
// returns false for 401, 403 and 404, which have pages of their own.
func (v *Visit) Refused(f *Form, err error) bool {
	switch x, ok := errors.AsType[*APIError](err); {
	case !ok, x.Status == http.StatusUnauthorized, x.Status == http.StatusForbidden, x.Status == http.StatusNotFound:
		return false
	default:
		v.Status = f.reject(x)
		return true
	}
}

// Answer answers a form whose call has returned err. It calls again if the call was refused, to show the form with its
// errors, and then if it succeeded.
func (v *Visit) Answer(f *Form, err error, again, then func() error) error {
	switch {
	case v.Refused(f, err):
		return again()
	case err != nil:
		return err
	}
	return then()
}

// Ask makes the call of a form with [Visit.Do], and answers the form with [Visit.Answer].
func (v *Visit) Ask(call string, f *Form, body map[string]any, out any, again, then func() error) error {
	return v.Answer(f, v.Do(call, f, body, out), again, then)
}

// Opens returns a function that opens a page with a message.
func Opens(v *Visit, path, message string) func() error {
	return func() error { return v.Redirect(path, message) }
}

// Saving is a form that changes a stored resource.
type Saving struct {
	Form   *Form
	Stored url.Values     // the values of the fields for the stored resource
	Body   map[string]any // the members to change
	Call   string         // of the API, such as PATCH /v1/alerts
	Out    any            // gets the answer
	Back   string         // path of the page
	Again  func() error   // shows the page with the form
	Then   func() error   // answers the request once the form is saved
}

// Save saves a form. If nothing was changed, or the form is stale, nothing is saved.
func (v *Visit) Save(s Saving) error {
	if len(s.Body) == 0 {
		return v.Redirect(s.Back, s.Form.Unchanged(s.Stored))
	}
	if s.Form.IsStale(v, s.Stored) {
		return s.Again()
	}
	return v.Ask(s.Call, s.Form, s.Body, s.Out, s.Again, s.Then)
}

// TryGet is [Visit.Get] for a part of a page: while the service cannot answer, the page says why and shows the rest.
func (v *Visit) TryGet(path string, query url.Values, out any) (unavailable string, err error) {
	if err = v.Get(path, query, out); IsUnavailable(err) {
		return MessageOf(err), nil
	}
	return "", err
}

// StatusOf returns the status of an error of the API; 0 for other errors and for none.
func StatusOf(err error) int {
	if x, ok := errors.AsType[*APIError](err); ok {
		return x.Status
	}
	return 0
}

// IsUnavailable reports whether a part of the service does not answer at the moment, so that a page can show what still
// works.
func IsUnavailable(err error) bool {
	status := StatusOf(err)
	return status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// BadRequest returns the answer of the API if it refused what a person has entered.
func BadRequest(err error) (*APIError, bool) {
	x, ok := errors.AsType[*APIError](err)
	return x, ok && x.Status == http.StatusBadRequest
}

// Fault returns an error of a field that the page found itself, in the form of an error of the API.
func Fault(param, format string, args ...any) error {
	return &APIError{ErrorView: web.ErrorView{Param: param, Message: fmt.Sprintf(format, args...)},
		Status: http.StatusBadRequest}
}

// MessageOf returns the message of an error of the API as a sentence.
func MessageOf(err error) string {
	if x, ok := errors.AsType[*APIError](err); ok {
		return Sentence(x.Message)
	}
	return ""
}

// APIError is an error response of a handler of /v1.
type APIError struct {
	web.ErrorView // its message is without the name of the parameter, which is that of a field in a form
	Status        int
	RetryAfter    time.Duration
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

// GetSoon is [Visit.Get] for data that a page can do without: it waits one second for the answer.
func (v *Visit) GetSoon(path string, query url.Values, out any) error {
	ctx, cancel := context.WithTimeout(v.R.Context(), time.Second)
	defer cancel()
	return v.call(ctx, http.MethodGet, path, query, nil, "", out)
}

// call calls the API as the person. If the store is behind, it sets v.AsOf, the time of the data.
func (v *Visit) call(ctx context.Context, method, path string, query url.Values, body []byte, nonce string,
	out any) error {
	path = v.Fill(path)
	ctx = config.WithSessionCheck(ctx, v.CheckSession)
	as := v.Principal()
	if v.Portal != nil {
		as = v.Portal.PrincipalFor(method != http.MethodGet)
	}
	status, header, text := v.Deps.API.Call(ctx, as, method, path, query, body, nonce)
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
	if err := json.Unmarshal(text, out); err != nil {
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
	e := &APIError{ErrorView: body.Error, Status: status}
	if e.Param != "" {
		e.Message = strings.TrimPrefix(e.Message, e.Param+": ")
	}
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
