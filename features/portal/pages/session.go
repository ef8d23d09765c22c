package pages

import (
	"errors"
	"net/http"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// linkPage is the data of the page of a link.
type linkPage struct {
	// Go says that the script of the page opens the link at once: it was followed on a listed application, or is shown in
	// a frame of one. Others may have sent it to lead a person into their own portal, and programs that preview links
	// open them, too: then a person decides.
	Go bool
}

// linkForm shows the page of a link. Opening it uses nothing up.
func linkForm(v *ui.Visit) error {
	v.W.Header().Set("Referrer-Policy", "strict-origin") // the path has the token
	fromOwner := v.R.Header.Get("Sec-Fetch-Dest") == "iframe" || v.MayLeadTo(v.R.Referer())
	v.Person = nil // the page has no navigation of an open session
	return v.Page("portal-link", linkPage{fromOwner})
}

// openLink uses the link up and begins a session.
func openLink(v *ui.Visit) error {
	v.W.Header().Set("Referrer-Policy", "strict-origin")
	s, err := v.Deps.Control.OpenPortalLink(v.R.Context(), v.Vars["token"])
	if errors.Is(err, config.ErrLink) {
		return &web.Error{Status: http.StatusNotFound, Type: web.NotFound, Code: ui.CodeLink,
			Message: "This link is unknown, was used before, or has ended."}
	}
	if err != nil {
		return err
	}
	if err := v.BeginPortal(s); err != nil {
		return err
	}
	return v.Redirect(ui.PortalPath, "")
}

// leave ends the session and leads back to the application.
func leave(v *ui.Visit) error {
	err := v.Deps.Control.EndPortalSession(v.R.Context(), v.Person.ID)
	if err != nil && !errors.Is(err, config.ErrNotFound) {
		return err
	}
	v.DeleteCookie()
	if v.LeadsBack() {
		v.SendTo(v.Portal.ReturnURL)
		return nil
	}
	v.Person = nil // the page has no navigation
	return v.Page("portal-left", nil)
}
