package account

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/web"
)

const peoplePath = "/app/settings/people"

// personRow is one person in the list.
type personRow struct {
	*config.User
	You        bool
	LastWriter bool // no other local person may change anything, so this one is neither removed nor made a reader
	LinkValid  bool // a one-time link waits to be used
}

// peoplePage is the data of the page of people.
type peoplePage struct {
	People []personRow
	Pager  ui.Pager
	Form   *ui.Form
	// Link is a one-time link, shown this once, for the person For.
	Link        string
	For         *config.User
	LinkExpires time.Time
	// Asked is a person who has changed since the form for the scope was drawn: the page asks again.
	Asked *scopeQuestion
}

// scopeQuestion asks whether a person, as it is now, gets another scope.
type scopeQuestion struct {
	*config.User
	Wanted config.Scope
}

// listPeople shows who may sign in and, to a writer, the form for an invitation.
func listPeople(v *ui.Visit) error { return showPeople(v, &peoplePage{}) }

// showPeople shows who may sign in; without a form, that of a new invitation.
func showPeople(v *ui.Visit, p *peoplePage) error {
	p.Form = cmp.Or(p.Form, ui.ScopeForm(""))
	users := v.Deps.Control.Users()
	writers := 0
	for _, u := range users {
		if u.IsLocalWriter() {
			writers++
		}
	}
	users, p.Pager = ui.Paginate(v, peoplePath, users)
	for _, u := range users {
		p.People = append(p.People, personRow{
			User: u, You: u.ID == v.Person.ID, LastWriter: u.IsLocalWriter() && writers == 1,
			LinkValid: u.Link != nil && v.Now().Before(u.Link.Expires),
		})
	}
	return v.Page("people", p)
}

// refusePeople shows who may sign in, and why nothing was done.
func refusePeople(v *ui.Visit, p *peoplePage) error {
	v.Status = http.StatusBadRequest
	return showPeople(v, p)
}

// addPerson invites a person and shows the one-time link.
func addPerson(v *ui.Visit, f *ui.Form) error {
	token, u, err := v.Deps.Control.AddUser(v.R.Context(), strings.TrimSpace(f.Value("email")),
		config.Scope(f.Value("scope")))
	if errors.Is(err, config.ErrConflict) {
		err = &entity.InvalidError{Param: "email",
			Message: "already belongs to a person; reset that person for a new link"}
	}
	if v.Refused(f, ui.InvalidInput(err)) {
		return showPeople(v, &peoplePage{Form: f})
	} else if err != nil {
		return err
	}
	return showLink(v, u, token)
}

// resetPerson removes a person's password, ends the sessions and shows a new one-time link. The form names the state
// that it was drawn from: sent twice, it makes one link.
func resetPerson(v *ui.Visit, u *config.User) error {
	rev, err := sentRevision(v)
	if err != nil {
		return err
	}
	token, u, err := v.Deps.Control.ResetUser(v.R.Context(), u.ID, rev)
	if errors.Is(err, config.ErrConflict) {
		return refusePeople(v, &peoplePage{Form: ui.ScopeForm("This person has changed since you opened the page, " +
			"perhaps by the same form. Nothing was done; this is the present state. A one-time link that was made before is " +
			"not shown again: reset the person for a new one.")})
	} else if err != nil {
		return err
	}
	if u.ID == v.Person.ID { // this session has ended too; the link leads back in
		v.DeleteCookie()
	}
	return showLink(v, u, token)
}

func showLink(v *ui.Visit, u *config.User, token string) error {
	p := &peoplePage{For: u, Link: ui.URL(v.Config.BaseURL, v.Config.Host) + linkPath + token}
	if u.Link != nil {
		p.LinkExpires = u.Link.Expires
	}
	return showPeople(v, p)
}

// sentRevision returns the revision of the person that the form was drawn from.
func sentRevision(v *ui.Visit) (int64, error) {
	rev, err := strconv.ParseInt(v.Values.Get("version"), 10, 64)
	if err != nil || rev <= 0 {
		return 0, web.Invalid("", "The form is incomplete. Open the page again and send it once more.")
	}
	return rev, nil
}

// setPersonScope changes what a person may do. If the person has changed since the form was drawn, the page shows the
// present state and asks again.
func setPersonScope(v *ui.Visit, u *config.User) error {
	rev, err := sentRevision(v)
	if err != nil {
		return err
	}
	scope := config.Scope(v.Values.Get("scope"))
	_, err = v.Deps.Control.SetUserScope(v.R.Context(), u.ID, scope, rev)
	if errors.Is(err, config.ErrConflict) {
		if u, err = personInPath(v); err != nil {
			return err
		}
		return refusePeople(v, &peoplePage{Asked: &scopeQuestion{u, scope}})
	} else if err != nil {
		return lastWriterError(err)
	}
	if scope == config.Read {
		return v.Redirect(peoplePath, u.Email+" may only read now.")
	}
	return v.Redirect(peoplePath, u.Email+" may read and write now.")
}

// removePerson removes a person, whose address the caller has typed.
func removePerson(v *ui.Visit, u *config.User) error {
	if typed, err := config.NormalizeEmail(v.Values.Get("confirm")); err != nil || typed != u.Email {
		return refusePeople(v, &peoplePage{
			Form: ui.ScopeForm("To remove a person, type the email address. Nobody was removed.")})
	}
	if err := v.Deps.Control.RemoveUser(v.R.Context(), u.ID); err != nil {
		return lastWriterError(err)
	}
	if u.ID == v.Person.ID {
		v.DeleteCookie()
		return v.Redirect(ui.SignInPath, "You have removed yourself.")
	}
	return v.Redirect(peoplePath, u.Email+" is removed, and signed out on every node.")
}

// endPersonSessions signs a person out everywhere.
func endPersonSessions(v *ui.Visit, u *config.User) error {
	if u.ID == v.Person.ID {
		return signOutEverywhere(v)
	}
	if err := v.Deps.Control.EndSessions(v.R.Context(), u.ID); err != nil {
		return err
	}
	return v.Redirect(peoplePath, u.Email+" is signed out in all browsers.")
}

// personInPath returns the person that the path names.
func personInPath(v *ui.Visit) (*config.User, error) {
	users := v.Deps.Control.Users()
	i := slices.IndexFunc(users, func(u *config.User) bool { return u.ID == v.Vars["person"] })
	if i < 0 {
		return nil, web.Missing("There is no such person any more: somebody has removed them. Nothing was changed.")
	}
	return users[i], nil
}

// lastWriterError says why the last person with the scope read_write stays.
func lastWriterError(err error) error {
	if errors.Is(err, config.ErrLastWriter) {
		return web.WrongState("", "Nobody else may change anything after signing in with a password. Give somebody else the "+
			"scope read and write first.")
	}
	return err
}
