package account

import (
	"context"
	"encoding/json"
	"time"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// confirmPath is the page of one change that an agent asks for.
const confirmPath = "/app/confirm/{act}"

// confirmPage is the data of that page.
type confirmPage struct {
	askedChange
	Args  string      // arguments of the tool but its note, indented
	Stuck bool        // approved a while ago and not done
	Form  *frame.Form // its nonce is that of DecisionNonce
	// Refusal is why it waits and cannot be approved, a sentence; empty if it can be.
	Refusal string
}

// actionInPath returns the action in the path.
func actionInPath(v *frame.Visit) (*config.Action, error) {
	if a := v.Deps.AgentActions.Action(v.Person.Account, v.Vars["act"]); a != nil {
		return a, nil
	}
	return nil, web.Missing("There is no such confirmation. They are remembered for a day; the audit log has what was " +
		"done.")
}

// showConfirm shows what an agent asks for. Opening the page decides nothing.
func showConfirm(v *frame.Visit) error {
	a, err := actionInPath(v)
	if err != nil {
		return err
	}
	now := v.Now()
	v.SelfReloading = a.State == config.ActionApproved
	p := &confirmPage{askedChange: newAskedChange(v, a), Args: frame.Indented(withoutNote(a.Arguments)),
		Stuck: a.State == config.ActionApproved && now.Sub(a.DecidedAt) > time.Minute,
		Form:  &frame.Form{Nonce: v.DecisionNonce(a)}}
	if p.State == config.ActionPending {
		p.Refusal = frame.Sentence(v.Deps.AgentActions.Refusal(a))
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

// approveAction does what an agent asks for.
func approveAction(v *frame.Visit) error { return decide(v, v.Deps.AgentActions.Approve) }

// declineAction ends it without doing it.
func declineAction(v *frame.Visit) error { return decide(v, v.Deps.AgentActions.Decline) }

// decide records a decision and shows how the action ended.
func decide(v *frame.Visit, how func(context.Context, *config.Key, *config.Action) (*config.Action, error)) error {
	a, err := actionInPath(v)
	if err != nil {
		return err
	}
	return v.Decide(a, frame.PageOf(a.ID), how)
}
