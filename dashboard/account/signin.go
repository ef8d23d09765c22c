package account

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/pkg/web"
)

// signInPage is the data of the sign-in page.
type signInPage struct {
	Email, Next, Error string
	Issuer             string // host name of the OpenID Connect issuer; empty: there is none
	// BaseURL is set if nobody has set RELAY_BASE_URL and the page was opened under another name; Host is that name.
	BaseURL, Host string
}

func newSignInPage(v *ui.Visit) signInPage {
	p := signInPage{Next: localPath(v.R.URL.Query().Get("next"))}
	if v.Deps.OIDC != nil {
		p.Issuer = v.Deps.OIDC.Host()
	}
	if v.HasForeignName() {
		p.BaseURL, p.Host = v.Config.BaseURL, v.R.Host
	}
	return p
}

// signInForm shows the sign-in page, or the page behind it to a person who is signed in.
func signInForm(v *ui.Visit) error {
	p := newSignInPage(v)
	if v.Person != nil {
		return v.Redirect(p.Next, "")
	}
	return v.Page("sign-in", p)
}

// signIn checks the password and begins a session.
func signIn(v *ui.Visit) error {
	p := newSignInPage(v)
	p.Next, p.Email = localPath(v.Values.Get("next")), strings.TrimSpace(v.Values.Get("email"))
	email, err := config.NormalizeEmail(p.Email)
	if err != nil {
		p.Error = "The email " + err.Error() + "."
		v.Status = http.StatusBadRequest
		return v.Page("sign-in", p)
	}
	person, err := withinSignInLimit(v, email, func(ctx context.Context) (*config.User, error) {
		return v.Deps.Control.SignIn(ctx, email, v.Values.Get("password"))
	})
	if errors.Is(err, config.ErrSignIn) {
		p.Error, v.Status = "No person has this email and password.", http.StatusForbidden
		return v.Page("sign-in", p)
	}
	if err != nil {
		return err
	}
	if err := v.BeginSession(person, 0); err != nil {
		return err
	}
	return v.Redirect(p.Next, "")
}

// withinSignInLimit calls verify, which verifies a password of the person with that email address or an answer of the
// issuer with that host name, unless too many were wrong. The attempt is counted first and taken back if it was right
// or was not verified: of passwords that are sent at the same time no more are verified than one after the other.
func withinSignInLimit(v *ui.Visit, email string, verify func(context.Context) (*config.User, error)) (*config.User,
	error) {
	ctx, from := v.R.Context(), web.InfoOf(v.R).Client
	if wait := v.Deps.SignInLimit.Claim(ctx, email, from); wait > 0 {
		return nil, &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: wait,
			Message: "There were too many wrong passwords, or refused sign-ins, from your address."}
	}
	person, err := verify(ctx)
	if _, refused := errors.AsType[*oidc.Refusal](err); !refused && !errors.Is(err, config.ErrSignIn) {
		v.Deps.SignInLimit.Release(ctx, email, from)
	}
	return person, err
}

// signOut ends this session.
func signOut(v *ui.Visit) error {
	if err := v.Deps.Control.EndSession(v.R.Context(), v.Person.ID, v.Session.ID, v.Session.Ends()); err != nil {
		return err // the cookie stays, so that the person can try again
	}
	v.DeleteCookie()
	return v.Redirect(ui.SignInPath, "You are signed out.")
}

// signOutEverywhere ends all sessions of the person, on every node.
func signOutEverywhere(v *ui.Visit) error {
	if err := v.Deps.Control.EndSessions(v.R.Context(), v.Person.ID); err != nil {
		return err
	}
	v.DeleteCookie()
	return v.Redirect(ui.SignInPath, "You are signed out in all browsers.")
}

// localPath returns next if it is a page of the dashboard, and otherwise the start page.
func localPath(next string) string {
	u, err := url.Parse(next)
	switch {
	case err != nil:
	case path.Clean(u.Path) != u.Path, u.Path != startPath && !strings.HasPrefix(u.Path, startPath+"/"):
	case strings.HasPrefix(u.Path, ui.SignInPath), strings.HasPrefix(u.Path, linkPath):
	default:
		return u.RequestURI() // path and query alone, escaped
	}
	return startPath
}

const startPath = "/app"

// linkPath is the folder of one-time links, each with its token.
const linkPath = "/app/link/"

// linkForm shows the page of a one-time link. Opening it uses nothing up: programs that preview links open them too.
func linkForm(v *ui.Visit) error {
	hideToken(v)
	return v.Page("link", nil)
}

// hideToken keeps the path, which holds the token, out of the Referer. Origin is sent, unlike with no-referrer.
func hideToken(v *ui.Visit) { v.W.Header().Set("Referrer-Policy", "strict-origin") }

// redeemLink uses the link up and signs its person in, who then chooses a password.
func redeemLink(v *ui.Visit) error {
	hideToken(v)
	person, err := v.Deps.Control.RedeemLink(v.R.Context(), v.Vars["token"])
	if errors.Is(err, config.ErrLink) {
		return &web.Error{Status: http.StatusNotFound, Type: web.NotFound, Code: ui.CodeLink,
			Message: "This link is unknown, was used before, or is older than 10 minutes."}
	}
	if err != nil {
		return err
	}
	if err := v.BeginSession(person, 0); err != nil {
		return err
	}
	return v.Redirect(ui.PasswordPath, "")
}

const changePasswordPath = "/app/settings/password"

// passwordPage is the data of a page where a person chooses a password.
type passwordPage struct {
	Form     *ui.Form
	Min, Max int // length in bytes
}

// showPasswordForm shows a page where a person chooses a password, with the error of a field.
func showPasswordForm(v *ui.Visit, page, param, message string) error {
	f := ui.NewForm(nil, "")
	if f.Param, f.Error = param, message; message != "" && v.Status == http.StatusOK {
		v.Status = http.StatusBadRequest
	}
	return v.Page(page, passwordPage{f, config.MinPassword, config.MaxPassword})
}

// setPassword sets a password that was entered twice, on a page, and begins a new session: all others end.
func setPassword(v *ui.Visit, page, back, message string, set func(password string) (*config.User, error)) error {
	password := v.Values.Get("password")
	if password != v.Values.Get("again") {
		return showPasswordForm(v, page, "again", "The two passwords differ.")
	}
	person, err := set(password)
	if invalid, ok := errors.AsType[*entity.InvalidError](err); ok {
		return showPasswordForm(v, page, "password", ui.Sentence(invalid.Message))
	}
	switch {
	case errors.Is(err, config.ErrNoPasswordChoice):
		return v.Redirect(back, "")
	case errors.Is(err, config.ErrSignIn):
		v.Status = http.StatusForbidden
		return showPasswordForm(v, page, "current", "This is not your password.")
	case err != nil:
		return err
	}
	if err := v.BeginSession(person, 0); err != nil {
		return err
	}
	return v.Redirect(back, message)
}

// passwordForm shows the page where a person chooses a password, to those who may.
func passwordForm(v *ui.Visit) error {
	if !v.Person.ChoosePassword {
		return v.Redirect("/app", "")
	}
	return showPasswordForm(v, "password", "", "")
}

func choosePassword(v *ui.Visit) error {
	return setPassword(v, "password", "/app", "Your password is set.", func(password string) (*config.User, error) {
		return v.Deps.Control.SetPassword(v.R.Context(), v.Person.ID, password)
	})
}

// changePasswordForm shows the page where a person replaces the password.
func changePasswordForm(v *ui.Visit) error {
	if v.Person.Issuer != "" {
		return config.ErrIssued
	}
	return showPasswordForm(v, "change-password", "", "")
}

// changePassword replaces the password of a person who knows the current one.
func changePassword(v *ui.Visit) error {
	const message = "Your password is changed. All other sessions have ended."
	return setPassword(v, "change-password", changePasswordPath, message, func(password string) (*config.User, error) {
		return withinSignInLimit(v, v.Person.Email, func(ctx context.Context) (*config.User, error) {
			return v.Deps.Control.ChangePassword(ctx, v.Person.ID, v.Values.Get("current"), password)
		})
	})
}
