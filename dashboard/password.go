package dashboard

import (
	"context"
	"errors"
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
)

const (
	passwordPath       = "/app/password"          // for whoever comes by a one-time link
	changePasswordPath = "/app/settings/password" // for whoever has a password
)

// passwordPage is the data of the page where a person chooses a password.
type passwordPage struct {
	Form     *form
	Min, Max int // length in bytes
}

// passwordForm shows the page where a person chooses a password, to those who may.
func passwordForm(v *visit) error {
	if !v.person.ChoosePassword {
		return v.redirect("/app", "")
	}
	return showPasswordForm(v, "", "")
}

func showPasswordForm(v *visit, param, message string) error {
	f := newForm(nil, "")
	f.Param, f.Error = param, message
	return v.page("password", passwordPage{f, config.MinPassword, config.MaxPassword})
}

// choosePassword sets the password and begins a new session: all others end.
func choosePassword(v *visit) error {
	password := v.values.Get("password")
	if password != v.values.Get("again") {
		v.status = http.StatusBadRequest
		return showPasswordForm(v, "again", "The two passwords differ.")
	}
	person, err := v.deps.Passwords.SetPassword(v.r.Context(), v.person.ID, password)
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		v.status = http.StatusBadRequest
		return showPasswordForm(v, "password", sentence(invalid.Message))
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

// changePasswordForm shows the page where a person replaces the password.
func changePasswordForm(v *visit) error { return showChangePassword(v, "", "") }

func showChangePassword(v *visit, param, message string) error {
	f := newForm(nil, "")
	f.Param, f.Error = param, message
	return v.page("change-password", passwordPage{f, config.MinPassword, config.MaxPassword})
}

// changePassword replaces the password of a person who knows the current one, and begins a new session: all others end.
func changePassword(v *visit) error {
	password := v.values.Get("password")
	if password != v.values.Get("again") {
		v.status = http.StatusBadRequest
		return showChangePassword(v, "again", "The two passwords differ.")
	}
	person, err := withinSignInLimit(v, v.person.Email, func(ctx context.Context) (*config.User, error) {
		return v.deps.Passwords.ChangePassword(ctx, v.person.ID, v.values.Get("current"), password)
	})
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		v.status = http.StatusBadRequest
		return showChangePassword(v, "password", sentence(invalid.Message))
	}
	if errors.Is(err, config.ErrSignIn) {
		v.status = http.StatusForbidden
		return showChangePassword(v, "current", "This is not your password.")
	}
	if err != nil {
		return err
	}
	if err := v.beginSession(person); err != nil {
		return err
	}
	return v.redirect(changePasswordPath, "Your password is changed. All other sessions have ended.")
}
