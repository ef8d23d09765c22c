package frame

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// DecisionNonce returns the nonce of the page of an action in this session: who decides has opened the page. Only the
// sealed cookie has the id of the session.
func (v *Visit) DecisionNonce(a *config.Action) string {
	sum := sha256.Sum256([]byte("decide " + v.Session.ID + " " + a.ID))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Decide records a decision on an action, Approve or Decline of AgentActions, and shows how it ended on its page at
// path.
func (v *Visit) Decide(a *config.Action, path string,
	how func(context.Context, *config.Key, *config.Action) (*config.Action, error)) error {
	if subtle.ConstantTimeCompare([]byte(v.Values.Get("nonce")), []byte(v.DecisionNonce(a))) != 1 {
		return v.Redirect(path, "Nothing was done: you signed in again after you opened this page. Review the change and "+
			"decide again.")
	}
	_, err := how(config.WithSessionCheck(v.R.Context(), v.CheckSession), v.Principal(), a)
	if errors.Is(err, config.ErrActionDecided) {
		return v.Redirect(path, "This was already decided or has expired. Nothing was changed.")
	}
	if e, ok := errors.AsType[*web.Error](err); ok && e.Status < http.StatusInternalServerError {
		return v.Redirect(path, Sentence(e.Message))
	}
	if err != nil {
		return err
	}
	return v.Redirect(path, "")
}
