package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

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

// look is the style sheet with the colour of the tenant's portal.
func look(v *ui.Visit) error {
	text := ""
	if rgb, err := strconv.ParseUint(cmp.Or(v.Portal.Look.Color, "#")[1:], 16, 32); err == nil {
		text = fmt.Sprintf(":root{--solid:#%06x;--on-solid:%s}", rgb, readableOn(rgb))
	}
	v.W.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, err := v.W.Write([]byte(text))
	return err
}

// readableOn returns black or white, whichever differs more from a colour: the contrast is 4.5 or more with one of them
// (relative luminance of WCAG 2.2, without its exact curve: squares are close enough to choose by).
func readableOn(rgb uint64) string {
	part := func(shift int) float64 { x := float64(rgb>>shift&255) / 255; return x * x }
	if 0.2126*part(16)+0.7152*part(8)+0.0722*part(0) > 0.18 {
		return "#000"
	}
	return "#fff"
}
