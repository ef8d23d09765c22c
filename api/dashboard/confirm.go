package dashboard

import (
	"context"
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
	*config.Act
	State config.ActState // now
	Args  string          // arguments of the tool, indented
	By    string          // email address of the person who decided; empty if nobody has, or the person was removed
	Stuck bool            // approved a while ago and not done
}

// Path is the page of the act.
func (p *confirmPage) Path() string { return "/app/confirm/" + p.ID }

// Pending reports whether the act waits for a person.
func (p *confirmPage) Pending() bool { return p.State == config.ActPending }

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
	p := &confirmPage{Act: a, State: a.StateAt(now), Args: indented([]byte(a.Arguments)),
		Stuck: a.State == config.ActApproved && now.Sub(a.DecidedAt) > time.Minute}
	for _, u := range v.deps.Members.Users() {
		if u.ID == a.DecidedBy {
			p.By = u.Email
		}
	}
	return v.page("confirm", p)
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
	path := "/app/confirm/" + a.ID
	_, err = how(v.r.Context(), v.principal(), a)
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
