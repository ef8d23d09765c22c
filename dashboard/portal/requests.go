package portal

import (
	"context"
	"net/url"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// request is a change that an agent of the tenant asked for.
type request struct {
	*config.Action
	State   config.ActionState // now
	Path    string
	Refusal string // why it cannot be approved, a sentence; empty if it can be
	Form    *frame.Form
}

func requestOf(v *frame.Visit, a *config.Action) request {
	r := request{Action: a, State: a.StateAt(v.Now()), Path: requestsPath + "/" + url.PathEscape(a.ID)}
	if r.State == config.ActionPending {
		r.Refusal = frame.Sentence(v.Deps.AgentActions.Refusal(a))
	}
	return r
}

// requestsPage is the data of the list of requests.
type requestsPage struct{ Pending, Recent []request }

func listRequests(v *frame.Visit) error {
	p := requestsPage{}
	for _, a := range v.TenantActions(v.Deps.AgentActions.Pending(v.Person.Account)) {
		p.Pending = append(p.Pending, requestOf(v, a))
	}
	for _, a := range v.TenantActions(v.Deps.AgentActions.Recent(v.Person.Account)) {
		p.Recent = append(p.Recent, requestOf(v, a))
	}
	return v.Page("portal-requests", p)
}

// inPath returns the action in the path.
func inPath(v *frame.Visit) (*config.Action, error) {
	a := v.Deps.AgentActions.Action(v.Person.Account, v.Vars["act"])
	if a == nil || a.Tenant != v.Portal.Tenant {
		return nil, web.Missing("There is no such request. They are remembered for a day.")
	}
	return a, nil
}

// showRequest shows what an agent asks for. Opening the page decides nothing.
func showRequest(v *frame.Visit) error {
	a, err := inPath(v)
	if err != nil {
		return err
	}
	r := requestOf(v, a)
	r.Form = &frame.Form{Nonce: v.DecisionNonce(a)}
	return v.Page("portal-request", r)
}

func approve(v *frame.Visit) error { return decide(v, v.Deps.AgentActions.Approve) }

func decline(v *frame.Visit) error { return decide(v, v.Deps.AgentActions.Decline) }

// decide records a decision and shows how the action ended.
func decide(v *frame.Visit, how func(context.Context, *config.Key, *config.Action) (*config.Action, error)) error {
	a, err := inPath(v)
	if err != nil {
		return err
	}
	return v.Decide(a, v.Fill(requestPath), how)
}
