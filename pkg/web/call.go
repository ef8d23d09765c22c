package web

import (
	"bytes"
	"cmp"
	"net/http"

	"github.com/eventrelay/relay/pkg/id"
)

// Recorder is a ResponseWriter that keeps the response in memory. The zero value is ready to use.
type Recorder struct {
	Status int // 0 until the response has begun
	Body   bytes.Buffer
	header http.Header
}

// Header returns the headers of the response.
func (w *Recorder) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// WriteHeader records the first status.
func (w *Recorder) WriteHeader(status int) {
	w.Status = cmp.Or(w.Status, status)
}

func (w *Recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.Body.Write(b)
}

// Call calls next for a request that was made inside this process, without a connection, and returns the response. The
// request gets the id and the client address of the request that its context belongs to; without one, a new id and no
// address. The response to an error or a panic is the same as over HTTP, also after the response has begun: none of it
// has left the process.
func (f *Front) Call(r *http.Request, next HandlerFunc) *Recorder {
	info := &Info{docs: f.BaseURL + DocsPath}
	if from, ok := r.Context().Value(infoKey{}).(*Info); ok {
		info.ID, info.Client = from.ID, from.Client
	} else {
		info.ID = id.Random("req_")
	}
	rec := &Recorder{}
	rec.Header()["X-Request-Id"] = []string{info.ID}
	f.serve(rec, r, info, next)
	rec.WriteHeader(http.StatusOK) // as net/http does for a handler that writes nothing
	return rec
}
