package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// ifMatch is the header of a change that is made only if the endpoint is the one that the client has read. A change of
// a destination is one of its endpoint.
const ifMatch = "If-Match"

// errRevision is the answer when it is another one. Statuses of the API have no 412, so it is a plain conflict.
var errRevision = &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: strings.ToLower(ifMatch),
	Message: "is not the ETag of the endpoint, which has been changed since it was read; read it and try again"}

// revisionTag returns the ETag of an endpoint. It stands for the stored configuration: the state of a circuit breaker,
// which an answer also shows, does not change it.
func revisionTag(e *config.Endpoint) string { return `"` + strconv.FormatInt(e.Rev, 10) + `"` }

// checkRevision implements If-Match of RFC 9110, 13.1.1.
func checkRevision(r *http.Request, e *config.Endpoint) error {
	given := r.Header.Values(ifMatch)
	if len(given) == 0 {
		return nil
	}
	for tag := range strings.SplitSeq(strings.Join(given, ","), ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == revisionTag(e) {
			return nil
		}
	}
	return errRevision
}
