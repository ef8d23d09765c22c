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

// defaultBodyTimeout is the BodyTimeout of a Front that sets none.
const defaultBodyTimeout = 30 * time.Second

// SetReadDeadline sets the time until which the request's body can be read. It ignores a ResponseWriter that does not
// support deadlines, as in tests without a connection.
func SetReadDeadline(w http.ResponseWriter, at time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

// NDJSONType is the media type of a body with one JSON text per line.
const NDJSONType = "application/x-ndjson"

// CheckContentType returns an invalid_request error (400) unless the Content-Type is missing, application/json or any
// +json type, with any parameters, and the body is not compressed (Content-Encoding). Any headers are accepted with an
// empty body: curl and fetch send a type of their own then.
func CheckContentType(r *http.Request) error {
	_, err := contentType(r, "must be application/json")
	return err
}

// CheckBatchType is CheckContentType, but also accepts NDJSONType; lines reports whether the body has that type.
func CheckBatchType(r *http.Request) (lines bool, err error) {
	kind, err := contentType(r, "must be application/json or "+NDJSONType, NDJSONType)
	return kind == NDJSONType, err
}

// contentType returns the media type of the body: empty for JSON, or one of others. For any other type it returns an
// error that says want.
func contentType(r *http.Request, want string, others ...string) (string, error) {
	kind, err := mediaType(r, want, others)
	if err != nil && hasNoBody(r) {
		return "", nil
	}
	return kind, err
}

// hasNoBody reports whether the body is empty. It may read the first byte, so the body cannot be used afterwards if it
// is not empty.
func hasNoBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength == 0
	}
	_, err := io.ReadFull(r.Body, make([]byte, 1))
	return err == io.EOF
}

// mediaType is contentType for a body that is not empty.
func mediaType(r *http.Request, want string, others []string) (string, error) {
	if values := r.Header.Values("Content-Encoding"); len(values) > 0 &&
		!strings.EqualFold(strings.Join(values, ","), "identity") {
		return "", Invalid("content-encoding", "compressed bodies are not accepted; send the JSON uncompressed")
	}
	values := r.Header.Values("Content-Type")
	switch {
	case len(values) == 0, len(values) == 1 && (values[0] == "" || values[0] == "application/json"):
		return "", nil
	case len(values) > 1:
		return "", Invalid("content-type", "is sent %d times; send one header", len(values))
	}
	kind, _, err := mime.ParseMediaType(values[0])
	switch {
	case err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter):
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return "", nil
	case slices.Contains(others, kind):
		return kind, nil
	}
	return "", Invalid("content-type", "is %.100q, but %s", values[0], want)
}

// ReadBody reads the whole body into buf. A body larger than limit bytes is a payload_too_large error (400), one that
// is cut off or too slow an invalid_request error (400), and Info.KeepBody may refuse one. Memory grows with the bytes
// that arrive, not with Content-Length. The Front sets the read deadline; net/http removes it after the last byte of
// the body.
func ReadBody(r *http.Request, buf *bytes.Buffer, limit int64) error {
	if r.ContentLength > limit {
		Discard(r)
		return tooLarge(limit)
	}
	body := &keptReader{from: io.LimitReader(r.Body, limit+1), keep: InfoOf(r).KeepBody}
	n, err := buf.ReadFrom(body)
	switch {
	case n > limit:
		Discard(r)
		return tooLarge(limit)
	case body.refused != nil: // not Discard: what has arrived would stay in memory meanwhile
		return body.refused
	case err != nil:
		return &Error{Status: http.StatusBadRequest, Type: InvalidRequest,
			Message: "the body did not arrive completely and in time; send it again", Err: err}
	}
	return nil
}

// keptReader reads what is kept in memory, and asks keep for each part.
type keptReader struct {
	from    io.Reader
	keep    func(n int) error // nil: nothing is refused
	refused error
}

func (k *keptReader) Read(p []byte) (int, error) {
	n, err := k.from.Read(p)
	if k.keep != nil && n > 0 {
		if k.refused = k.keep(n); k.refused != nil {
			return 0, k.refused
		}
	}
	return n, err
}

// maxDiscarded is how much Discard reads of a body that is too large: 16 MiB.
const maxDiscarded = 16 << 20

// Discard reads and drops up to 16 MiB more of a body that is too large. Most clients send all of it before they read
// the response: without Discard net/http closes the connection after another 256 KiB, and the client sees a broken pipe
// instead of the error. It reads nothing if the client waits for permission to send (Expect: RFC 9110, 10.1.1).
func Discard(r *http.Request) {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded) // the error response follows in any case
	}
}

// tooLarge returns the payload_too_large error (400).
func tooLarge(limit int64) error {
	return &Error{Status: http.StatusBadRequest, Type: PayloadTooLarge,
		Message: fmt.Sprintf("the body is larger than %d bytes", limit)}
}

// InvalidJSON returns the invalid_request error (400) for an error of ParseObject or ParseArray. param is the path of
// the member that was parsed, empty for the body.
func InvalidJSON(param string, err error) error {
	if d, ok := errors.AsType[*DuplicateError](err); ok {
		return Invalid(JoinPath(param, d.Name), "appears twice; send it once")
	}
	if param != "" {
		return Invalid(param, "is not the expected JSON: %v", err)
	}
	return Invalid("", "the body is not the expected JSON: %v", err)
}

// JoinPath returns the dotted path of the member name below path; path is empty for the body.
func JoinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
