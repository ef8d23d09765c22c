package clickhouse

import (
	"fmt"
	"net/http"

	"github.com/ClickHouse/ch-go/compress"
)

// tagLength is the length of the random tag that distinguishes an exception in the middle of a result from data that
// looks like one.
const tagLength = 16

// response writes a result, or an exception before or in the middle of it.
type response struct {
	w          http.ResponseWriter
	tag        string
	compressor *compress.Writer
	started    bool // the status has been sent, so that an error status is too late
}

// start sets the response headers that ClickHouse clients read.
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

// summary sets the header with the numbers of rows; call it before the first Write.
func (r *response) summary(read, written uint64) {
	r.w.Header().Set("X-ClickHouse-Summary", fmt.Sprintf(`{"read_rows":"%d","written_rows":"%d"}`, read, written))
}

// Write sends a part of the result, in compressed frames if the client asked for them.
func (r *response) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.started = true
	if r.compressor == nil {
		return r.w.Write(p)
	}
	// frameSize is that of ClickHouse's own writers; readers limit it.
	const frameSize = 1 << 20
	for unsent := p; len(unsent) > 0; {
		n := min(len(unsent), frameSize)
		if err := r.compressor.Compress(unsent[:n]); err != nil {
			return 0, fmt.Errorf("compress result: %w", err)
		}
		if _, err := r.w.Write(r.compressor.Data); err != nil {
			return 0, err
		}
		unsent = unsent[n:]
	}
	return len(p), nil
}

// finish completes the response; an empty result gets Content-Length 0, which clients rely on.
func (r *response) finish() {
	if !r.started {
		r.w.Header().Set("Content-Length", "0")
		r.w.WriteHeader(http.StatusOK)
	}
}

// writeException sends an exception. Before the first byte of a result it is an error status with the text; after that
// it is the framed text that WriteBufferFromHTTPServerResponse.cpp appends.
func (r *response) writeException(e *exception) error {
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
