package frame

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// PortalOperation is what a token of the portal needs for an operation.
type PortalOperation struct {
	Right config.PortalRight
	// Members are those that its body may have, by their paths, as the page of the portal has fields for them; nil: any.
	Members []string
}

type portalSessionKey struct{}

// answerPages sets the headers by which pages of listed origins may call the API with a token of the portal, and
// answers their question whether they may (CORS).
func (rt *Router) answerPages(w http.ResponseWriter, r *http.Request) (answered bool, err error) {
	origin, h := r.Header.Get("Origin"), w.Header()
	asks := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if !slices.Contains(rt.Portal.Origins, origin) || !asks && !hasPortalToken(r) {
		return false, nil
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Relay-Data-As-Of, Retry-After, X-Request-Id")
	if !asks {
		return false, nil
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key")
	h.Set("Access-Control-Max-Age", "600")
	return true, web.Answer(w, http.StatusOK, struct{}{})
}

func hasPortalToken(r *http.Request) bool {
	text, _ := web.Bearer(r)
	return strings.HasPrefix(text, config.PortalTokenPrefix)
}

// servePortal answers a request with a token of the portal, whose session is s.
func (rt *Router) servePortal(w http.ResponseWriter, r *http.Request, token string, s *config.PortalSession) error {
	key := s.PrincipalFor(r.Method != http.MethodGet && r.Method != http.MethodHead)
	ctx := context.WithValue(r.Context(), portalSessionKey{}, s)
	ctx = config.WithSessionCheck(ctx, func() (*config.Key, error) {
		_, err := rt.Config.PortalToken(token)
		if errors.Is(err, config.ErrSessionEnded) {
			err = errInvalidKey()
		}
		return key, err
	})
	return rt.ServeFor(w, r.WithContext(ctx), key)
}

// checkPortal returns the 403 of an operation that the token of a request does not allow.
func (rt *Router) checkPortal(r *http.Request, operation string) error {
	s, _ := r.Context().Value(portalSessionKey{}).(*config.PortalSession)
	if s == nil {
		return nil
	}
	if x, ok := rt.PortalOperations[operation]; !ok || !s.Has(x.Right) {
		return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "the token of the portal does not allow this"}
	}
	return nil
}

// maxPortalBody bounds a body whose members are checked, in bytes.
const maxPortalBody = 64 << 10

// checkMembers refuses a body with a member that a token of the portal may not set.
func (rt *Router) checkMembers(r *http.Request, operation string) error {
	allowed := rt.PortalOperations[operation].Members
	if r.Context().Value(portalSessionKey{}) == nil || allowed == nil {
		return nil
	}
	var body bytes.Buffer
	if err := web.ReadBody(r, &body, maxPortalBody); err != nil {
		return err
	}
	r.Body = io.NopCloser(&body)
	var refused error
	var check func(above string, object gjson.Result)
	check = func(above string, object gjson.Result) {
		object.ForEach(func(key, value gjson.Result) bool {
			name := above + key.String()
			inside := func(member string) bool { return strings.HasPrefix(member, name+".") }
			switch {
			case slices.Contains(allowed, name):
			case value.IsObject() && slices.ContainsFunc(allowed, inside):
				check(name+".", value)
			default:
				refused = web.Invalid(name, "cannot be set with a token of the portal; it may set %s",
					strings.Join(allowed, ", "))
			}
			return refused == nil
		})
	}
	check("", gjson.ParseBytes(body.Bytes()))
	return refused
}
