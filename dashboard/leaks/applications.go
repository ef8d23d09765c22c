package leaks

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
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

var readDSN = frame.ReadAt[dsnData](dsnAPI)

// IsBrowser reports whether everybody who opens the application can read its DSN.
func (d *dsnData) IsBrowser() bool { return d.Platform == config.DSNBrowser }

// PlatformText names the platform.
func (d *dsnData) PlatformText() string { return frame.OptionText(dsnPlatforms, d.Platform) }

// dsnPlatforms are the platforms of DSNs, as people choose them.
var dsnPlatforms = []frame.Option{
	{Value: config.DSNServer, Text: "A server"}, {Value: config.DSNBrowser, Text: "Pages in browsers"},
}

var showApplications = frame.ListOf[*dsnData]("applications", "/v1/dsns", applicationsPath)

func newApplication(_ *frame.Visit, f *frame.Form) frame.Object {
	body := f.Entered("name")
	body["platform"] = f.Value("platform")
	return body
}

// applicationPageData is the data of the page of one application.
type applicationPageData struct {
	*dsnData
	Form          *frame.Form
	Package, File string // URL of the package of the SDK, and its name
	Origin        string // of the DSN, which the Content-Security-Policy of a page has to allow
}

// showApplication shows how to connect an application, and what it has reported.
func showApplication(v *frame.Visit, d *dsnData) error {
	return showApplicationForm(v, d, frame.NewForm(d.values(), strconv.Itoa(d.Version)))
}

// dsnFields are the settings of an application.
var dsnFields = frame.FieldTable{
	{frame.TrimmedField, "name"}, {frame.OptionalNumber, "daily_quota"}, {frame.LineField, "allowed_origins"},
}

func (d *dsnData) values() url.Values { return dsnFields.Values(d) }

// showApplicationForm shows the page of an application; f holds its settings.
func showApplicationForm(v *frame.Visit, d *dsnData, f *frame.Form) error {
	number, _, _ := strings.Cut(v.Config.Version, "+") // without the commit
	p := &applicationPageData{dsnData: d, Form: f, File: "eventrelay-sdk-" + number + ".tgz"}
	p.Package = v.Config.BaseURL + "/tools/" + p.File
	if u, err := url.Parse(d.DSN); err == nil {
		p.Origin = u.Scheme + "://" + u.Host
	}
	return v.Page("application", p)
}

// saveApplication changes the settings of an application.
func saveApplication(v *frame.Visit, f *frame.Form, d *dsnData) error {
	body := dsnFields.All(f)
	if !d.IsBrowser() {
		delete(body, "allowed_origins")
	}
	f.AddVersion(body, d.Version, d.values())
	err := v.Do("PATCH "+dsnAPI, f, body, nil)
	if x, ok := frame.BadRequest(err); ok {
		x.Param, _, _ = strings.Cut(x.Param, "[") // of a list: its field
	}
	return v.Answer(f, err, func() error { return showApplicationForm(v, d, f) },
		frame.Opens(v, frame.PageOf(d.ID), "Saved"))
}
