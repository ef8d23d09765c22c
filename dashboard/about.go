package dashboard

import (
	"runtime"
	"time"
)

const (
	settingsPath = "/app/settings"
	aboutPath    = settingsPath + "/about"
)

// Check is the result of one check of an engine, of the configuration or of the ledger.
type Check struct {
	Name    string
	State   string // ok, warn (needs attention within a day) or fail
	Text    string
	Advice  string // what to do next; may be empty
	Details []string
}

// maxCheckDetails bounds the detail lines of a check on the page.
const maxCheckDetails = 20

// aboutPage is the data of the page about this installation.
type aboutPage struct {
	Version, GoVersion, Platform   string
	BaseURL, DashboardURL, Account string
	BaseURLIsDefault               bool
	// Checks are the results of an examination that ended at ExaminedAt; empty before one.
	Checks     []Check
	ExaminedAt time.Time
	Busy       bool // another examination is running on this node
}

func newAboutPage(v *visit) aboutPage {
	return aboutPage{
		Version: v.cfg.Version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		BaseURL: v.cfg.BaseURL, DashboardURL: URL(v.cfg.BaseURL, v.cfg.Host), Account: v.person.Account,
		BaseURLIsDefault: v.cfg.BaseURLIsDefault,
	}
}

// showAbout shows the version and the addresses of this installation.
func showAbout(v *visit) error { return v.page("about", newAboutPage(v)) }

// examine checks the engines and the ledger as relay doctor does, one examination at a time: it reads the log of the
// last hour.
func examine(v *visit) error {
	p := newAboutPage(v)
	if !v.examining.TryLock() {
		p.Busy = true
		return v.page("about", p)
	}
	defer v.examining.Unlock()
	checks, err := v.deps.Doctor(v.r.Context())
	if err != nil {
		return err
	}
	for _, c := range checks {
		c.Details = c.Details[:min(len(c.Details), maxCheckDetails)]
		p.Checks = append(p.Checks, c)
	}
	p.ExaminedAt = v.deps.Now()
	return v.page("about", p)
}
