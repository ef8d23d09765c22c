package frame

import (
	"encoding/base64"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/pkg/web"
)

// OrNull returns nil for the empty text, and for 0.
func OrNull[T comparable](s T) *T {
	var none T
	if s == none {
		return nil
	}
	return &s
}

// SetAsOf sets Relay-Data-As-Of, the time up to which the answer is complete. t is zero when the answer is current.
func SetAsOf(w http.ResponseWriter, t time.Time) {
	if !t.IsZero() {
		w.Header().Set("Relay-Data-As-Of", t.UTC().Format(web.TimeFormat))
	}
}

// ViewsOf returns the view of each row.
func ViewsOf[T, V any](rows []T, view func(T) V) []V {
	out := make([]V, len(rows))
	for i, x := range rows {
		out[i] = view(x)
	}
	return out
}

// WriteDeleted answers that something is deleted.
func WriteDeleted(w http.ResponseWriter, name, object string) {
	web.WriteJSON(w, http.StatusOK, wire.Deleted{ID: name, Object: object, Deleted: true})
}

// FailureViewOf shows why operations failed on a body.
func FailureViewOf(f *transform.Failure) *wire.Failure {
	view := &wire.Failure{Pointer: f.Pointer, Message: f.Message}
	if f.Op != transform.NoOp {
		view.Index = &f.Op
	}
	return view
}

// BodyText returns bytes as text if they are UTF-8, else in base64.
func BodyText(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), "utf8"
	}
	return base64.StdEncoding.EncodeToString(b), "base64"
}
