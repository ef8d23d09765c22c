package clickhouse

import (
	"fmt"
	"net/http"

	"github.com/ClickHouse/ch-go/compress"
)

// tagLength is that of the random tag which tells an exception in the middle of
// a result from data that looks like one.
const tagLength = 16

// response writes a result, or an exception at any point of it.
type response struct {
	w          http.ResponseWriter
	tag        string
	compressor *compress.Writer
	started    bool // bytes of the result, and with them the status, have gone out
}

// start sets the headers that clients of ClickHouse know.
func (r *response) start(q *request, e *engine) {
	h := r.w.Header()
	h.Set("X-ClickHouse-Query-Id", q.id)
	h.Set("X-ClickHouse-Format", q.format)
	h.Set("X-ClickHouse-Timezone", e.zone)
	h.Set("X-ClickHouse-Server-Display-Name", e.host)
	h.Set("X-ClickHouse-Exception-Tag", r.tag)
	h.Set("Content-Type", contentType(q.format))
	if q.compress != nil {
		r.compressor = compress.NewWriter(compress.LevelZero, *q.compress)
	}
}

func contentType(format string) string {
	switch format {
	case "TabSeparated", "TSV", "Values":
		return "text/tab-separated-values; charset=UTF-8"
	case "JSON", "JSONCompact", "JSONEachRow":
		return "application/json; charset=UTF-8"
	case "CSV", "CSVWithNames":
		return "text/csv; charset=UTF-8"
	case "Pretty", "PrettyCompact", "Vertical":
		return "text/plain; charset=UTF-8"
	}
	return "application/octet-stream"
}

// summary says what the statement did; it precedes the first byte.
func (r *response) summary(read, written uint64) {
	r.w.Header().Set("X-ClickHouse-Summary", fmt.Sprintf(`{"read_rows":"%d","written_rows":"%d"}`, read, written))
}

// Write sends a part of the result, in compressed frames when asked for.
func (r *response) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.started = true
	if r.compressor == nil {
		return r.w.Write(p)
	}
	// frameSize is that of ClickHouse's own writers; readers bound it.
	const frameSize = 1 << 20
	for rest := p; len(rest) > 0; {
		n := min(len(rest), frameSize)
		if err := r.compressor.Compress(rest[:n]); err != nil {
			return 0, fmt.Errorf("compress result: %w", err)
		}
		if _, err := r.w.Write(r.compressor.Data); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// finish ends a result without a byte with its length, by which clients know it.
func (r *response) finish() error {
	if !r.started {
		r.w.Header().Set("Content-Length", "0")
		r.w.WriteHeader(http.StatusOK)
	}
	return nil
}

// exception answers with a status and the text, or once the result has begun
// with the framed text that WriteBufferFromHTTPServerResponse.cpp puts behind it.
func (r *response) exception(e *exception) error {
	if r.started {
		text := e.text + "\n"
		_, err := fmt.Fprintf(r, "\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n", r.tag, text, len(text), r.tag)
		return err
	}
	r.started = true
	h := r.w.Header()
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Set("X-ClickHouse-Exception-Code", e.codeText())
	r.w.WriteHeader(http.StatusInternalServerError)
	_, err := fmt.Fprintln(r, e.text)
	return err
}
