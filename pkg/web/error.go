package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Error types of the API. Clients may rely on this set being complete. Each has an anchor of its name at DocsPath.
const (
	InvalidRequest         = "invalid_request"
	InvalidState           = "invalid_state"
	IdempotencyMismatch    = "idempotency_mismatch"
	SelectionTooLarge      = "selection_too_large"
	PayloadTooLarge        = "payload_too_large"
	Conflict               = "conflict"
	AuthenticationRequired = "authentication_required"
	InvalidAPIKey          = "invalid_api_key"
	InsufficientScope      = "insufficient_scope"
	NotFound               = "not_found"
	RateLimited            = "rate_limited"
	AllowanceExceeded      = "allowance_exceeded"
	Internal               = "internal"
	Unavailable            = "unavailable"
	Timeout                = "timeout"
)

// internalMessage is what clients see of an error whose cause must not reach them.
const internalMessage = "something failed on our side; the request id names it in our logs"

// Error is an error response. The client sees all fields but Err, which is for the log. If Param is set, Message is a
// predicate ("must be an integer"), and the response puts the parameter before it ("limit: must be an integer").
type Error struct {
	Status  int
	Type    string
	Message string
	Param   string // dotted path with indexes, or the name of a query parameter or header
	Code    string // a more specific word than Type; may be empty
	// RetryAfter is sent as the Retry-After header, rounded up to whole seconds; zero sends none.
	RetryAfter time.Duration
	// Run and Queued are the id of a replay that failed and how many events it had queued by then; empty for other calls.
	Run    string
	Queued int
	Err    error
}

// Error returns the text for logs, with the cause.
func (e *Error) Error() string {
	text := e.Type + ": " + e.Message
	if e.Param != "" {
		text = e.Type + " " + e.Param + ": " + e.Message
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// maxShownParam limits the length of a parameter in a response, in bytes: it may be a name that the client invented.
const maxShownParam = 200

// TruncateParam returns param for a response. It cuts it to at most 200 bytes, between characters, with "…" at the end.
func TruncateParam(param string) string {
	const mark = "…"
	if len(param) <= maxShownParam {
		return param
	}
	return strings.ToValidUTF8(param[:maxShownParam-len(mark)], "") + mark
}

// clientMessage returns the message with the parameter before it: many clients show the message only.
func (e *Error) clientMessage() string {
	if e.Param == "" {
		return e.Message
	}
	return TruncateParam(e.Param) + ": " + e.Message
}

// Invalid returns an invalid_request error (400) about the parameter param; param may be empty.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: InvalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// WrongState returns an invalid_state error (400): the request is valid, but not in the present state of its object.
func WrongState(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: InvalidState, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Missing returns a not_found error (404) for an id or a route.
func Missing(format string, args ...any) *Error {
	return &Error{Status: http.StatusNotFound, Type: NotFound, Message: fmt.Sprintf(format, args...)}
}

// ServiceUnavailable returns an unavailable error (503) for a temporary failure, with Retry-After: 1. The client sees
// message; WriteError logs err unless it is nil.
func ServiceUnavailable(err error, message string) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: Unavailable, Message: message,
		RetryAfter: time.Second, Err: err}
}

// FromError returns the error response for err: the [*Error] that err wraps, a 504 for context.DeadlineExceeded, and
// otherwise a 500 without details. It is the only place that maps errors to responses.
func FromError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Status: http.StatusGatewayTimeout, Type: Timeout,
			Message: "the request took too long and was given up", Err: err}
	}
	return &Error{Status: http.StatusInternalServerError, Type: Internal, Message: internalMessage, Err: err}
}

// errorBody is the JSON body of an error response.
type errorBody struct {
	Error ErrorView `json:"error"`
}

// ErrorView is the JSON form of an Error.
type ErrorView struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Param     string `json:"param,omitempty"`
	Code      string `json:"code,omitempty"`
	Run       string `json:"run_id,omitempty"`
	Queued    *int   `json:"queued,omitempty"`
	DocURL    string `json:"doc_url"`
	RequestID string `json:"request_id"`
}

// DocsPath is the path of the page that explains the error types, each at an anchor of its name.
const DocsPath = "/docs/errors"

// WriteError writes err as a JSON error response. It logs a 5xx that has a cause (Err), unless log is nil or the client
// has closed the connection. Only metrics count a 5xx without a cause: during an outage of Kafka every request gets
// one, and a line for each would fill the disk.
func WriteError(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	e := FromError(err)
	logError(r, log, e)
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	setErrorHeaders(w.Header(), e)
	WriteJSON(w, e.Status, errorBody{ViewOf(r, e)})
}

// lastUnavailable is when a 503 was logged last, in Unix seconds.
var lastUnavailable atomic.Int64

// logError logs a 5xx that has a cause. A 503 says that something is unavailable, which clients can repeat as often as
// they like: it is a warning, once a second.
func logError(r *http.Request, log *slog.Logger, e *Error) {
	level, log503 := slog.LevelError, e.Status == http.StatusServiceUnavailable
	if log503 {
		level = slog.LevelWarn
	}
	if log != nil && e.Status >= 500 && e.Err != nil && r.Context().Err() == nil {
		if now := time.Now().Unix(); log503 && lastUnavailable.Swap(now) == now {
			return
		}
		log.LogAttrs(r.Context(), level, "request failed", slog.Int("status", e.Status),
			slog.String("method", r.Method), slog.String("route", InfoOf(r).Route), slog.String("request_id", InfoOf(r).ID),
			slog.String("error", e.Error()))
	}
}

// setErrorHeaders sets the headers of every error response.
func setErrorHeaders(h http.Header, e *Error) {
	h.Del("Content-Length")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
}

// ViewOf returns the JSON form of e, for an error response or for one failed element of a batch response.
func ViewOf(r *http.Request, e *Error) ErrorView {
	info := InfoOf(r)
	v := ErrorView{
		Type: e.Type, Message: e.clientMessage(), Param: TruncateParam(e.Param), Code: e.Code, Run: e.Run,
		DocURL: cmp.Or(info.docs, DocsPath) + "#" + e.Type, RequestID: info.ID,
	}
	if e.Run != "" {
		v.Queued = &e.Queued
	}
	return v
}
