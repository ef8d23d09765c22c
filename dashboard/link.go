package dashboard

import (
	"errors"
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

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
