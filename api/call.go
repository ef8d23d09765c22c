package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Call answers a request of a signed-in person without a network: pages call it. Everything after authentication is
// the same as for a request with an API key: routing, rate limits, scopes, Idempotency-Keys, audit entries, metrics and
// errors. It does not check the host name, which belongs to the page's request, and counts no use of a key.
//
// principal is the person in the form of a key: an id with the prefix usr_, the account, the email address as name, and
// the person's scope. The caller has checked the session. If ctx has a check (config.WithSessionCheck), a replay, which
// may take an hour, makes it again before each page, and the request of an act before it changes anything. The request
// id and the client address are those of the request that ctx belongs to.
//
// path is escaped as in a URL, so an id from outside must pass url.PathEscape. idempotencyKey may be empty; only POST
// uses it. The returned JSON is the response body, also of an error. Streams are refused with 400.
func (a *API) Call(ctx context.Context, principal *config.Key, method, path string, query url.Values, body []byte,
	idempotencyKey string,
) (status int, header http.Header, json []byte) {
	if config.SessionCheck(ctx) == nil {
		ctx = config.WithSessionCheck(ctx, func() (*config.Key, error) { return principal, nil })
	}
	rec := a.front.Call(newCall(ctx, method, path, query, body, idempotencyKey),
		func(w http.ResponseWriter, r *http.Request) error {
			if found, _ := a.router.Match(r); found.Endless {
				return web.Invalid("", "a stream can only be read over HTTP, with an API key; list the events instead")
			}
			return a.router.ServeFor(w, r, principal)
		})
	return rec.Status, rec.Header(), rec.Body.Bytes()
}

// newCall returns the request of a Call.
func newCall(ctx context.Context, method, path string, query url.Values, body []byte, idempotencyKey string,
) *http.Request {
	to := &url.URL{Path: path, RawQuery: query.Encode()}
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		to.Path, to.RawPath = plain, path
	}
	r := &http.Request{
		Method: method, URL: to, Host: "localhost", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, ContentLength: int64(len(body)),
	}
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if idempotencyKey != "" {
		r.Header[frame.IdempotencyHeader] = []string{idempotencyKey}
	}
	return r.WithContext(ctx)
}
