package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	signInPath  = "/app/sign-in"
	signOutPath = "/app/sign-out"
)

// signInPage is the data of the sign-in page.
type signInPage struct {
	Email, Next, Error string
	// BaseURL is set if nobody has set RELAY_BASE_URL and the page was opened under another name; Host is that name.
	BaseURL, Host string
}

func newSignInPage(v *visit) signInPage {
	p := signInPage{Next: localPath(v.r.URL.Query().Get("next"))}
	if v.hosts.isForeignName(v.r) {
		p.BaseURL, p.Host = v.cfg.BaseURL, v.r.Host
	}
	return p
}

// signInForm shows the sign-in page, or the page behind it to a person who is signed in.
func signInForm(v *visit) error {
	p := newSignInPage(v)
	if v.person != nil {
		return v.redirect(p.Next, "")
	}
	return v.page("sign-in", p)
}

// signIn checks the password and begins a session.
func signIn(v *visit) error {
	p := newSignInPage(v)
	p.Next, p.Email = localPath(v.values.Get("next")), strings.TrimSpace(v.values.Get("email"))
	email, err := config.NormalizeEmail(p.Email)
	if err != nil {
		p.Error = "The email " + err.Error() + "."
		v.status = http.StatusBadRequest
		return v.page("sign-in", p)
	}
	person, err := withinSignInLimit(v, email, func(ctx context.Context) (*config.User, error) {
		return v.deps.People.SignIn(ctx, email, v.values.Get("password"))
	})
	if errors.Is(err, config.ErrSignIn) {
		p.Error, v.status = "No person has this email and password.", http.StatusForbidden
		return v.page("sign-in", p)
	}
	if err != nil {
		return err
	}
	if err := v.beginSession(person); err != nil {
		return err
	}
	return v.redirect(p.Next, "")
}

// withinSignInLimit calls verify, which verifies a password of the person with that email address, unless there were
// too many wrong ones. The attempt is counted first and taken back if the password was right or was not verified: of
// passwords that are sent at the same time no more are verified than one after the other.
func withinSignInLimit(v *visit, email string, verify func(context.Context) (*config.User, error)) (*config.User,
	error) {
	ctx, from := v.r.Context(), web.InfoOf(v.r).Client
	if wait := v.deps.SignInLimit.Claim(ctx, email, from); wait > 0 {
		return nil, &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: wait,
			Message: "There were too many wrong passwords from your address."}
	}
	person, err := verify(ctx)
	if !errors.Is(err, config.ErrSignIn) {
		v.deps.SignInLimit.Release(ctx, email, from)
	}
	return person, err
}

// signOut ends this session.
func signOut(v *visit) error {
	ends := time.Unix(v.session.Began, 0).Add(sessionLife)
	if err := v.deps.People.EndSession(v.r.Context(), v.person.ID, v.session.ID, ends); err != nil {
		return err // the cookie stays, so that the person can try again
	}
	v.deleteCookie()
	return v.redirect(signInPath, "You are signed out.")
}

// signOutEverywhere ends all sessions of the person, on every node.
func signOutEverywhere(v *visit) error {
	if err := v.deps.People.EndSessions(v.r.Context(), v.person.ID); err != nil {
		return err
	}
	v.deleteCookie()
	return v.redirect(signInPath, "You are signed out in all browsers.")
}

// localPath returns next if it is a page of the dashboard, and otherwise the start page.
func localPath(next string) string {
	const start = "/app"
	u, err := url.Parse(next)
	switch {
	case err != nil:
	case path.Clean(u.Path) != u.Path, u.Path != start && !strings.HasPrefix(u.Path, start+"/"):
	case u.Path == signInPath, strings.HasPrefix(u.Path, linkPath):
	default:
		return u.RequestURI() // path and query alone, escaped
	}
	return start
}

// retryTime returns when a request may be repeated, for a page.
func (d *Dashboard) retryTime(after time.Duration) time.Time {
	return d.deps.Now().Add(after).Truncate(time.Second).Add(time.Second)
}

// linkPath is the folder of one-time links, each with its token.
const linkPath = "/app/link/"

// linkForm shows the page of a one-time link. Opening it uses nothing up: programs that preview links open them too.
func linkForm(v *visit) error {
	hideToken(v)
	return v.page("link", nil)
}

// hideToken keeps the path, which holds the token, out of the Referer. Origin is sent, unlike with no-referrer.
func hideToken(v *visit) { v.w.Header().Set("Referrer-Policy", "strict-origin") }

// redeemLink uses the link up and signs its person in, who then chooses a password.
func redeemLink(v *visit) error {
	hideToken(v)
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

const (
	passwordPath       = "/app/password"          // for whoever comes by a one-time link
	changePasswordPath = "/app/settings/password" // for whoever has a password
)

// passwordPage is the data of a page where a person chooses a password.
type passwordPage struct {
	Form     *form
	Min, Max int // length in bytes
}

// showPasswordForm shows a page where a person chooses a password, with the error of a field.
func showPasswordForm(v *visit, page, param, message string) error {
	f := newForm(nil, "")
	if f.Param, f.Error = param, message; message != "" && v.status == http.StatusOK {
		v.status = http.StatusBadRequest
	}
	return v.page(page, passwordPage{f, config.MinPassword, config.MaxPassword})
}

// setPassword sets a password that was entered twice, on a page, and begins a new session: all others end.
func setPassword(v *visit, page, back, message string, set func(password string) (*config.User, error)) error {
	password := v.values.Get("password")
	if password != v.values.Get("again") {
		return showPasswordForm(v, page, "again", "The two passwords differ.")
	}
	person, err := set(password)
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		return showPasswordForm(v, page, "password", sentence(invalid.Message))
	}
	switch {
	case errors.Is(err, config.ErrNoPasswordChoice):
		return v.redirect(back, "")
	case errors.Is(err, config.ErrSignIn):
		v.status = http.StatusForbidden
		return showPasswordForm(v, page, "current", "This is not your password.")
	case err != nil:
		return err
	}
	if err := v.beginSession(person); err != nil {
		return err
	}
	return v.redirect(back, message)
}

// passwordForm shows the page where a person chooses a password, to those who may.
func passwordForm(v *visit) error {
	if !v.person.ChoosePassword {
		return v.redirect("/app", "")
	}
	return showPasswordForm(v, "password", "", "")
}

func choosePassword(v *visit) error {
	return setPassword(v, "password", "/app", "Your password is set.", func(password string) (*config.User, error) {
		return v.deps.Passwords.SetPassword(v.r.Context(), v.person.ID, password)
	})
}

// changePasswordForm shows the page where a person replaces the password.
func changePasswordForm(v *visit) error { return showPasswordForm(v, "change-password", "", "") }

// changePassword replaces the password of a person who knows the current one.
func changePassword(v *visit) error {
	const message = "Your password is changed. All other sessions have ended."
	return setPassword(v, "change-password", changePasswordPath, message, func(password string) (*config.User, error) {
		return withinSignInLimit(v, v.person.Email, func(ctx context.Context) (*config.User, error) {
			return v.deps.Passwords.ChangePassword(ctx, v.person.ID, v.values.Get("current"), password)
		})
	})
}
