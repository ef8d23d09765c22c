package frame

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// IfMatch is the header of a change that is made only if the endpoint is the one that the client has read. A change of
// a destination is one of its endpoint.
const IfMatch = "If-Match"

// ErrRevision is the answer when it is another one. Statuses of the API have no 412, so it is a plain conflict.
var ErrRevision = &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: strings.ToLower(IfMatch),
	Message: "is not the ETag of the endpoint, which has been changed since it was read; read it and try again"}

// RevisionTag returns the ETag of an endpoint. It stands for the stored configuration: the state of a circuit breaker,
// which an answer also shows, does not change it.
func RevisionTag(e *config.Endpoint) string { return `"` + strconv.FormatInt(e.Rev, 10) + `"` }

// CheckRevision implements If-Match of RFC 9110, 13.1.1.
func CheckRevision(r *http.Request, e *config.Endpoint) error {
	given := r.Header.Values(IfMatch)
	if len(given) == 0 {
		return nil
	}
	for tag := range strings.SplitSeq(strings.Join(given, ","), ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == RevisionTag(e) {
			return nil
		}
	}
	return ErrRevision
}
