package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

// defaultBodyTimeout is that of a Front that names none.
const defaultBodyTimeout = 30 * time.Second

// SetReadDeadline sets the end of reading from the client. Where that cannot be done, as in tests without
// a connection, there is no slow client either.
func SetReadDeadline(w http.ResponseWriter, at time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

// NDJSONType is the media type of a body that holds one JSON text a line.
const NDJSONType = "application/x-ndjson"

// CheckContentType accepts a body without a type, application/json and any +json type, with any parameters.
func CheckContentType(r *http.Request) error {
	_, err := contentType(r, "must be application/json")
	return err
}

// CheckBatchType accepts NDJSONType besides, and reports whether it is that.
func CheckBatchType(r *http.Request) (lines bool, err error) {
	kind, err := contentType(r, "must be application/json or "+NDJSONType, NDJSONType)
	return kind == NDJSONType, err
}

// contentType returns the media type of a request's body, empty for JSON, if it is JSON or one of others.
func contentType(r *http.Request, want string, others ...string) (string, error) {
	if values := r.Header.Values("Content-Encoding"); len(values) > 0 &&
		!strings.EqualFold(strings.Join(values, ","), "identity") {
		return "", Invalid("content-encoding", "compressed bodies are not accepted; send the JSON as it is")
	}
	values := r.Header.Values("Content-Type")
	if len(values) == 0 || len(values) == 1 && values[0] == "application/json" {
		return "", nil
	}
	kind, _, err := mime.ParseMediaType(values[0])
	switch {
	case len(values) > 1 || err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter):
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return "", nil
	case slices.Contains(others, kind):
		return kind, nil
	}
	return "", Invalid("content-type", "is %.100q, but %s", values[0], want)
}

// ReadBody reads the whole body into buf, at most limit bytes. Memory grows with what has arrived, never
// with what a header promises. The deadline for it is the Front's; net/http lifts it when the body is whole.
func ReadBody(r *http.Request, buf *bytes.Buffer, limit int64) error {
	if r.ContentLength > limit {
		Discard(r)
		return tooLarge(limit)
	}
	n, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch {
	case n > limit:
		Discard(r)
		return tooLarge(limit)
	case err != nil:
		return &Error{Status: http.StatusBadRequest, Type: InvalidRequest,
			Message: "the body did not arrive whole and in time", Err: err}
	}
	return nil
}

// maxDiscarded bounds what is read of a body that is refused for its size, in bytes.
const maxDiscarded = 16 << 20

// Discard reads on in a body that is too large. Most clients send all of it before they look for an
// answer: closing the connection on them, as net/http does 256 KB further on, turns a clear error into a
// broken pipe. A client that asks first (RFC 9110, 10.1.1) is told at once.
func Discard(r *http.Request) {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded) // whatever stops it, the answer follows
	}
}

func tooLarge(limit int64) error {
	return &Error{Status: http.StatusBadRequest, Type: PayloadTooLarge,
		Message: fmt.Sprintf("the body is larger than %d bytes", limit)}
}

// InvalidJSON is the 400 for an error of ParseObject or ParseArray; param names the member, empty for the body.
func InvalidJSON(param string, err error) error {
	if d, ok := errors.AsType[*DuplicateError](err); ok {
		return Invalid(JoinPath(param, d.Name), "stands twice; send it once")
	}
	if param != "" {
		return Invalid(param, "is not the JSON that is wanted: %v", err)
	}
	return Invalid("", "the body is not the JSON that is wanted: %v", err)
}

// Join is the path of a member below another path.
func JoinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
