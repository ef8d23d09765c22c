package dashboard

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// confirmPath is the page of one change that an agent asks for.
const confirmPath = "/app/confirm/{act}"

// confirmPage is the data of that page.
type confirmPage struct {
	askedChange
	Args  string // arguments of the tool but its note, indented
	Stuck bool   // approved a while ago and not done
	Form  *form  // its nonce is that of decisionNonce
	// Refusal is why it waits and cannot be approved, a sentence; empty if it can be.
	Refusal string
}

// actInPath returns the act in the path.
func actInPath(v *visit) (*config.Act, error) {
	if a := v.deps.Acts.Act(v.person.Account, v.vars["act"]); a != nil {
		return a, nil
	}
	return nil, web.Missing("There is no such confirmation. They are remembered for a day; the audit log has what was " +
		"done.")
}

// showConfirm shows what an agent asks for. Opening the page decides nothing.
func showConfirm(v *visit) error {
	a, err := actInPath(v)
	if err != nil {
		return err
	}
	now := v.deps.Now()
	v.selfReloading = a.State == config.ActApproved
	p := &confirmPage{askedChange: newAskedChange(v, a), Args: indented(withoutNote(a.Arguments)),
		Stuck: a.State == config.ActApproved && now.Sub(a.DecidedAt) > time.Minute, Form: &form{Nonce: decisionNonce(v, a)}}
	if p.State == config.ActPending {
		p.Refusal = sentence(v.deps.Acts.Refusal(a))
	}
	return v.page("confirm", p)
}

// decisionNonce returns the nonce of the page of an act in this session: who decides has opened the page. Only the
// sealed cookie has the id of the session.
func decisionNonce(v *visit, a *config.Act) string {
	sum := sha256.Sum256([]byte("decide " + v.session.ID + " " + a.ID))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
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

// approveAct does what an agent asks for.
func approveAct(v *visit) error { return decide(v, v.deps.Acts.Approve) }

// declineAct ends it without doing it.
func declineAct(v *visit) error { return decide(v, v.deps.Acts.Decline) }

// decide records a decision and shows how the act ended.
func decide(v *visit, how func(context.Context, *config.Key, *config.Act) (*config.Act, error)) error {
	a, err := actInPath(v)
	if err != nil {
		return err
	}
	path := pageOf(a.ID)
	if subtle.ConstantTimeCompare([]byte(v.values.Get("nonce")), []byte(decisionNonce(v, a))) != 1 {
		return v.redirect(path, "Nothing was done: you have signed in anew since this page was opened. Read it and decide "+
			"again.")
	}
	_, err = how(config.WithSessionCheck(v.r.Context(), v.checkSession), v.principal(), a)
	if errors.Is(err, config.ErrActDecided) {
		return v.redirect(path, "This was decided before, or its time is over. Nothing more was done.")
	}
	if e, ok := errors.AsType[*web.Error](err); ok && e.Status < http.StatusInternalServerError {
		return v.redirect(path, sentence(e.Message))
	}
	if err != nil {
		return err
	}
	return v.redirect(path, "")
}
