package pages

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// confirmPath is the page of one change that an agent asks for.
const confirmPath = "/app/confirm/{act}"

// confirmPage is the data of that page.
type confirmPage struct {
	askedChange
	Args  string   // arguments of the tool but its note, indented
	Stuck bool     // approved a while ago and not done
	Form  *ui.Form // its nonce is that of decisionNonce
	// Refusal is why it waits and cannot be approved, a sentence; empty if it can be.
	Refusal string
}

// actionInPath returns the action that the path names.
func actionInPath(v *ui.Visit) (*config.Action, error) {
	if a := v.Deps.AgentActions.Action(v.Person.Account, v.Vars["act"]); a != nil {
		return a, nil
	}
	return nil, web.Missing("There is no such confirmation. They are remembered for a day; the audit log has what was " +
		"done.")
}

// showConfirm shows what an agent asks for. Opening the page decides nothing.
func showConfirm(v *ui.Visit, a *config.Action) error {
	now := v.Now()
	v.SelfReloading = a.State == config.ActionApproved
	p := &confirmPage{askedChange: newAskedChange(v, a), Args: ui.Indented(withoutNote(a.Arguments)),
		Stuck: a.State == config.ActionApproved && now.Sub(a.DecidedAt) > time.Minute,
		Form:  &ui.Form{Nonce: decisionNonce(v, a)}}
	if p.State == config.ActionPending {
		p.Refusal = ui.Sentence(v.Deps.AgentActions.Refusal(a))
	}
	return v.Page("confirm", p)
}

// withoutNote returns the arguments of a tool without the agent's note, which the page shows apart.
func withoutNote(arguments string) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &members) != nil {
		return []byte(arguments)
	}
	delete(members, "note")
	return web.Encode(members)
}

// decisionNonce returns the nonce of the page of an action in this session: who decides has opened the page. Only the
// sealed cookie has the id of the session.
func decisionNonce(v *ui.Visit, a *config.Action) string {
	sum := sha256.Sum256([]byte("decide " + v.Session.ID + " " + a.ID))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// decide returns the handler of a decision, Approve or Decline, on the action that find finds. It shows how the action
// ended on the page at path.
func decide(path string, find func(*ui.Visit) (*config.Action, error), how func(ui.AgentActions, context.Context,
	*config.Key, *config.Action) (*config.Action, error)) func(*ui.Visit) error {
	return ui.Show(find, func(v *ui.Visit, a *config.Action) error {
		page := v.Fill(path)
		if subtle.ConstantTimeCompare([]byte(v.Values.Get("nonce")), []byte(decisionNonce(v, a))) != 1 {
			return v.Redirect(page, "Nothing was done: you signed in again after you opened this page. Review the change and "+
				"decide again.")
		}
		_, err := how(v.Deps.AgentActions, config.WithSessionCheck(v.R.Context(), v.CheckSession), v.Principal(), a)
		if errors.Is(err, config.ErrActionDecided) {
			return v.Redirect(page, "This was already decided or has expired. Nothing was changed.")
		}
		if e, ok := errors.AsType[*web.Error](err); ok && e.Status < http.StatusInternalServerError {
			return v.Redirect(page, ui.Sentence(e.Message))
		}
		if err != nil {
			return err
		}
		return v.Redirect(page, "")
	})
}
