package account

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/pkg/web"
)

// maxNext bounds the page to open at the end, escaped: the sealed cookie with it is at most twice as long and half a
// kilobyte, times 4/3, and browsers drop one of more than 4096 bytes.
const maxNext = 1200

// toIssuer begins a sign-in at the OpenID Connect issuer, or the confirmation of an open session.
func toIssuer(v *ui.Visit) error {
	switch {
	case v.Deps.OIDC == nil:
		return web.Missing("Nobody signs in here by an issuer.")
	case !v.IsNavigation(): // an image of another site would fill the browser with cookies
		return web.Missing("Only a browser that opens the page gets to the issuer.")
	}
	begun, address, err := v.Deps.OIDC.Begin(v.R.Context())
	if err != nil {
		return web.ServiceUnavailable(err, issuerAway)
	}
	if begun.Next = localPath(v.R.URL.Query().Get("next")); len(url.QueryEscape(begun.Next)) > maxNext {
		begun.Next = startPath
	}
	if err := v.KeepPending(begun); err != nil {
		return err
	}
	v.SendTo(address)
	return nil
}

// fromIssuer ends a sign-in at the issuer, which has sent the browser back. It is a GET that signs somebody in: the
// cookie of the same browser says that it was begun here.
func fromIssuer(v *ui.Visit) error {
	client, answer := v.Deps.OIDC, v.R.URL.Query()
	if client == nil {
		return web.Missing("Nobody signs in here by an issuer.")
	}
	begun, err := v.TakePending(answer.Get("state"))
	if err != nil {
		return err
	}
	if begun.State == "" { // not limited: an image of another site would use up the limit of its visitors
		return refuseIdentity(v, config.Identity{}, &oidc.Refusal{Reason: oidc.NotBegun})
	}
	var who config.Identity
	person, err := withinSignInLimit(v, client.Host(), func(ctx context.Context) (*config.User, error) {
		if who, err = client.Finish(ctx, begun, answer); err != nil {
			return nil, err
		}
		return v.Deps.Control.SignInIdentity(ctx, who, v.Renews(who.UserID()))
	})
	refused, isRefusal := errors.AsType[*oidc.Refusal](err)
	switch {
	case isRefusal:
		return refuseIdentity(v, who, refused)
	case errors.Is(err, oidc.ErrUnavailable):
		return web.ServiceUnavailable(err, issuerAway)
	case err != nil:
		return err
	}
	if err := v.BeginSession(person, begun.Began); err != nil {
		return err
	}
	return v.Redirect(begun.Next, "")
}

// refuseIdentity ends the sessions of a person whom the issuer admits no more, and says on the sign-in page what the
// person can do. The log has the details.
func refuseIdentity(v *ui.Visit, who config.Identity, refused *oidc.Refusal) error {
	if v.Deps.OIDC.Mentions(refused) {
		v.Deps.Log.LogAttrs(v.R.Context(), slog.LevelWarn, "refused a sign-in by OpenID Connect",
			slog.String("reason", refused.Error()), slog.String("subject", who.Subject),
			slog.String("request_id", web.InfoOf(v.R).ID))
	}
	if who.Subject != "" {
		if err := v.Deps.Control.EndIdentity(v.R.Context(), who); err != nil {
			return err
		}
		if v.Session.User == who.UserID() {
			v.DeleteCookie()
		}
	}
	v.Person = nil // of the page
	p := newSignInPage(v)
	p.Error = cmp.Or(map[string]string{
		oidc.NotBegun: "This sign-in was not begun in this browser under " + ui.URL(v.Config.BaseURL, v.Config.Host) +
			", was finished before, or took longer than 10 minutes. Begin it again.",
		oidc.Declined: p.Issuer + " has not signed you in.",
		oidc.BadEmail: p.Issuer + " has not verified an email address of yours.",
		oidc.NoGroup:  "You are in no group of " + p.Issuer + " that may sign in here.",
	}[refused.Reason], "The answer of "+p.Issuer+" was refused: "+refused.Reason+
		". The log of the server has the details.")
	v.Status = http.StatusForbidden
	return v.Page("sign-in", p)
}

const issuerAway = "The OpenID Connect issuer does not answer at the moment. Local people can sign in with their " +
	"password."
