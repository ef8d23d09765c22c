package dashboard

import (
	"errors"
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	linkPath     = "/app/link/" // below it lie one-time links, each with its token
	passwordPath = "/app/password"
)

// linkForm shows the page of a one-time link. Opening it uses nothing up: programs that preview links open them too.
func (v *visit) linkForm() error {
	v.hideToken()
	return v.page("link", nil)
}

// hideToken keeps the path, which holds the token, out of the Referer. Origin is sent, unlike with no-referrer.
func (v *visit) hideToken() { v.w.Header().Set("Referrer-Policy", "strict-origin") }

// redeemLink uses the link up and signs its person in, who then chooses a password.
func (v *visit) redeemLink() error {
	v.hideToken()
	person, err := v.deps.People.RedeemLink(v.r.Context(), v.vars["token"])
	if errors.Is(err, config.ErrLink) {
		return &web.Error{Status: http.StatusNotFound, Type: web.NotFound, Code: codeLink,
			Message: "This link is unknown, was used before, or is older than 10 minutes."}
	}
	if err != nil {
		return err
	}
	if err := v.beginSession(person); err != nil {
		return err
	}
	return v.redirect(passwordPath, "")
}

// codeLink marks the error of a one-time link that does not work.
const codeLink = "link"

// passwordPage is the data of the page where a person chooses a password.
type passwordPage struct {
	Form     *form
	Min, Max int // length in bytes
}

// passwordForm shows the page where a person chooses a password, to those who may.
func (v *visit) passwordForm() error {
	if !v.person.ChoosePassword {
		return v.redirect("/app", "")
	}
	return v.passwordPage("", "")
}

func (v *visit) passwordPage(param, message string) error {
	f := newForm(nil, "")
	f.Param, f.Error = param, message
	return v.page("password", passwordPage{f, config.MinPassword, config.MaxPassword})
}

// choosePassword sets the password and begins a new session: all others end.
func (v *visit) choosePassword() error {
	password := v.values.Get("password")
	if password != v.values.Get("again") {
		v.status = http.StatusBadRequest
		return v.passwordPage("again", "The two passwords differ.")
	}
	person, err := v.deps.People.SetPassword(v.r.Context(), v.person.ID, password)
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		v.status = http.StatusBadRequest
		return v.passwordPage("password", sentence(invalid.Message))
	}
	if errors.Is(err, config.ErrNoPasswordChoice) {
		return v.redirect("/app", "")
	}
	if err != nil {
		return err
	}
	if err := v.beginSession(person); err != nil {
		return err
	}
	return v.redirect("/app", "Your password is set.")
}
