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
	"time"
)

// Types of errors. The set is closed; each has its anchor in the documentation.
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

const internalMessage = "something failed on our side; the request id names it in our logs"

// Error is an answer that is not a success. Message, Param and Code are for the client; Err is for the log.
// A message with a parameter is a predicate ("must be an integer"): the answer puts the parameter before it.
type Error struct {
	Status  int
	Type    string
	Message string
	Param   string // dotted path with indexes; query and header names as sent
	Code    string // a finer word than Type, where one exists
	// RetryAfter becomes the header, rounded up to whole seconds; zero for none.
	RetryAfter time.Duration
	// Run and Queued say how far a replay came before it failed; empty outside of replays.
	Run    string
	Queued int
	Err    error
}

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

// maxShownParam bounds a parameter in an answer, in bytes: it may be a name that the client made up.
const maxShownParam = 200

// TruncateParam is a parameter as it stands in answers: cut when it is longer than one is worth, to 200 bytes with the
// mark.
func TruncateParam(param string) string {
	const mark = "…"
	if len(param) <= maxShownParam {
		return param
	}
	return strings.ToValidUTF8(param[:maxShownParam-len(mark)], "") + mark
}

// text is the message as a client reads it. It names the parameter: many clients show nothing else.
func (e *Error) clientMessage() string {
	if e.Param == "" {
		return e.Message
	}
	return TruncateParam(e.Param) + ": " + e.Message
}

// Invalid is the 400 for one parameter; an empty param names none.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: InvalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// State is the 400 for something that is not allowed in the present state of things.
func WrongState(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: InvalidState, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Missing is the 404 of an id or a route.
func Missing(format string, args ...any) *Error {
	return &Error{Status: http.StatusNotFound, Type: NotFound, Message: fmt.Sprintf(format, args...)}
}

// Away is the 503 of something that will be back: err is logged unless it is nil, message is shown.
func ServiceUnavailable(err error, message string) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: Unavailable, Message: message,
		RetryAfter: time.Second, Err: err}
}

// From is the one mapping of an error to an answer. What is no *Error becomes a 500 without a detail, a
// deadline of ours a 504.
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

// errorBody is the wire form.
type errorBody struct {
	Error ErrorView `json:"error"`
}

// ErrorView is what a client reads of an Error.
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

// DocsPath is where the types of errors are explained, each at an anchor of its own name.
const DocsPath = "/docs/errors"

// WriteError answers with the error and logs it when it is our fault. Nobody hears of a client that left,
// and a 5xx without a cause is left to the metrics: a log that is away would fill the disk with lines.
func WriteError(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	e := FromError(err)
	if log != nil && e.Status >= 500 && e.Err != nil && r.Context().Err() == nil {
		log.LogAttrs(r.Context(), slog.LevelError, "request failed", slog.Int("status", e.Status),
			slog.String("method", r.Method), slog.String("route", InfoOf(r).Route), slog.String("request_id", InfoOf(r).ID),
			slog.String("error", e.Error()))
	}
	h := w.Header()
	h.Del("Content-Length")
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	WriteJSON(w, e.Status, errorBody{ViewOf(r, e)})
}

// ViewOf is an error as it stands in answers: alone, or as the part of a request that went wrong.
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
