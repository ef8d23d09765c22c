package pages

import (
	"net/url"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the portal.
const (
	requestsPath = ui.PortalPath + "/requests"
	requestPath  = requestsPath + "/{act}"
)

// request is a change that an agent of the tenant asked for.
type request struct {
	*config.Action
	State   config.ActionState // now
	Path    string
	Refusal string // why it cannot be approved, a sentence; empty if it can be
	Form    *ui.Form
}

func requestOf(v *ui.Visit, a *config.Action) request {
	r := request{Action: a, State: a.StateAt(v.Now()), Path: requestsPath + "/" + url.PathEscape(a.ID)}
	if r.State == config.ActionPending {
		r.Refusal = ui.Sentence(v.Deps.AgentActions.Refusal(a))
	}
	return r
}

// requestsPage is the data of the list of requests.
type requestsPage struct{ Pending, Recent []request }

func listRequests(v *ui.Visit) error {
	p := requestsPage{}
	for _, a := range v.AskedChanges() {
		p.Pending = append(p.Pending, requestOf(v, a))
	}
	for _, a := range v.TenantActions(v.Deps.AgentActions.Recent(v.Person.Account)) {
		p.Recent = append(p.Recent, requestOf(v, a))
	}
	return v.Page("portal-requests", p)
}

// requestInPath returns the action that the path names.
func requestInPath(v *ui.Visit) (*config.Action, error) {
	a := v.Deps.AgentActions.Action(v.Person.Account, v.Vars["act"])
	if a == nil || a.Tenant != v.Portal.Tenant {
		return nil, web.Missing("There is no such request. They are remembered for a day.")
	}
	return a, nil
}

// showRequest shows what an agent asks for. Opening the page decides nothing.
func showRequest(v *ui.Visit, a *config.Action) error {
	r := requestOf(v, a)
	r.Form = &ui.Form{Nonce: decisionNonce(v, a)}
	return v.Page("portal-request", r)
}
