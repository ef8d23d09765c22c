package dashboard

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
)

// Paths of the pages of applications with the SDK. Each has a DSN.
const (
	applicationsPath = "/app/applications"
	applicationPath  = applicationsPath + "/{dsn}"
	dsnAPI           = "/v1/dsns/{dsn}"
)

// dsnData is a DSN of the API.
type dsnData struct{ apiDSN }

type apiDSN = wire.DSN // under another name than its member DSN

var readDSN = thing[dsnData](dsnAPI)

// IsBrowser reports whether everybody who opens the application can read its DSN.
func (d *dsnData) IsBrowser() bool { return d.Platform == config.DSNBrowser }

// PlatformText names the platform.
func (d *dsnData) PlatformText() string { return optionText(dsnPlatforms, d.Platform) }

// dsnPlatforms are the platforms of DSNs, as people choose them.
var dsnPlatforms = []option{
	{Value: config.DSNServer, Text: "A server"}, {Value: config.DSNBrowser, Text: "Pages in browsers"},
}

var showApplications = listOf[*dsnData]("applications", "/v1/dsns", applicationsPath)

func newApplication(_ *visit, f *form) members {
	body := f.entered("name")
	body["platform"] = f.Value("platform")
	return body
}

// applicationPageData is the data of the page of one application.
type applicationPageData struct {
	*dsnData
	Form          *form
	Package, File string // URL of the package of the SDK, and its name
	Origin        string // of the DSN, which the Content-Security-Policy of a page has to allow
}

// showApplication shows how to connect an application, and what it has reported.
func showApplication(v *visit, d *dsnData) error {
	return showApplicationForm(v, d, newForm(d.values(), strconv.Itoa(d.Version)))
}

// dsnFields are the settings of an application.
var dsnFields = fieldTable{
	{trimmedField, "name"}, {optionalNumber, "daily_quota"}, {lineField, "allowed_origins"},
}

func (d *dsnData) values() url.Values { return dsnFields.values(d) }

// showApplicationForm shows the page of an application; f holds its settings.
func showApplicationForm(v *visit, d *dsnData, f *form) error {
	number, _, _ := strings.Cut(v.cfg.Version, "+") // without the commit
	p := &applicationPageData{dsnData: d, Form: f, File: "eventrelay-sdk-" + number + ".tgz"}
	p.Package = v.cfg.BaseURL + "/tools/" + p.File
	if u, err := url.Parse(d.DSN); err == nil {
		p.Origin = u.Scheme + "://" + u.Host
	}
	return v.page("application", p)
}

// saveApplication changes the settings of an application.
func saveApplication(v *visit, f *form, d *dsnData) error {
	body := dsnFields.all(f)
	if !d.IsBrowser() {
		delete(body, "allowed_origins")
	}
	f.addVersion(body, d.Version, d.values())
	err := v.do("PATCH "+dsnAPI, f, body, nil)
	if x, ok := badRequest(err); ok {
		x.Param, _, _ = strings.Cut(x.Param, "[") // of a list: its field
	}
	return v.answer(f, err, func() error { return showApplicationForm(v, d, f) }, opens(v, pageOf(d.ID), "Saved"))
}
