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
