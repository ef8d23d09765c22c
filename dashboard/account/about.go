package account

import (
	"runtime"
	"sync"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	settingsPath = "/app/settings"
	aboutPath    = settingsPath + "/about"
)

// maxCheckDetails bounds the detail lines of a check on the page.
const maxCheckDetails = 20

// aboutPage is the data of the page about this installation.
type aboutPage struct {
	Version, GoVersion, Platform   string
	BaseURL, DashboardURL, Account string
	BaseURLIsDefault               bool
	// Checks are the results of an examination that ended at ExaminedAt; empty before one.
	Checks     []ui.Check
	ExaminedAt time.Time
	Busy       bool // another examination is running on this node
	Examines   bool // this program can examine
}

func newAboutPage(v *ui.Visit) aboutPage {
	return aboutPage{
		Version: v.Config.Version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		BaseURL: v.Config.BaseURL, DashboardURL: ui.URL(v.Config.BaseURL, v.Config.Host), Account: v.Person.Account,
		BaseURLIsDefault: v.Config.BaseURLIsDefault, Examines: v.Deps.Doctor != nil,
	}
}

// showAbout shows the version and the addresses of this installation.
func showAbout(v *ui.Visit) error { return v.Page("about", newAboutPage(v)) }

// examiner checks the engines and the ledger as relay doctor does, one examination at a time: it reads the log of the
// last hour.
type examiner struct{ running sync.Mutex }

func (x *examiner) examine(v *ui.Visit) error {
	p := newAboutPage(v)
	if !p.Examines {
		return web.Missing("There is no such page.")
	}
	if !x.running.TryLock() {
		p.Busy = true
		return v.Page("about", p)
	}
	defer x.running.Unlock()
	checks, err := v.Deps.Doctor(v.R.Context())
	if err != nil {
		return err
	}
	for _, c := range checks {
		c.Details = c.Details[:min(len(c.Details), maxCheckDetails)]
		p.Checks = append(p.Checks, c)
	}
	p.ExaminedAt = v.Now()
	return v.Page("about", p)
}
