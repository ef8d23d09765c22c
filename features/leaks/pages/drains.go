package pages

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/features/leaks/routes"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/leak"
)

// Paths of the pages of log drains.
const (
	drainsPath = "/app/drains"
	drainPath  = drainsPath + "/{drain}"
	drainAPI   = "/v1/drains/{drain}"
)

// drainData is a drain of the API.
type drainData struct{ routes.Drain }

var readDrain = ui.ReadAt[drainData](drainAPI)

var showDrains = ui.ListOf[*drainData]("drains", "/v1/drains", drainsPath)

func newDrain(_ *ui.Visit, f *ui.Form) ui.Object { return f.Entered("name") }

// drainPageData is the data of the page of one drain.
type drainPageData struct {
	*drainData
	Form      *ui.Form
	TestKey   string // a key that opens nothing, to try the drain with; its finding is marked as a test
	Platforms []ui.Option
	// URL in parts, for the settings of log shippers.
	Host, Port, Path string
	TLS              bool
	// The last part of the URL is a token, which some platforms send in a header: it is masked for people who may only
	// read.
	WithoutToken, Token string
}

// showDrain shows how to send lines to a drain, and what it has received.
func showDrain(v *ui.Visit, d *drainData) error {
	return showDrainForm(v, d, ui.NewForm(d.values(), strconv.Itoa(d.Version)))
}

func (d *drainData) values() url.Values {
	return url.Values{"name": {d.Name}, "platform": {d.Platform}}
}

// showDrainForm shows the page of a drain; f holds its settings.
func showDrainForm(v *ui.Visit, d *drainData, f *ui.Form) error {
	p := &drainPageData{drainData: d, Form: f, TestKey: apikey.NewTestKey(), Platforms: drainPlatforms}
	if u, err := url.Parse(d.URL); err == nil {
		p.TLS = u.Scheme == "https"
		p.Host, p.Path = u.Hostname(), strings.TrimPrefix(u.Path, "/")
		p.Port = cmp.Or(u.Port(), map[bool]string{true: "443", false: "80"}[p.TLS])
	}
	i := max(0, strings.LastIndexByte(d.URL, '/'))
	p.WithoutToken, p.Token = d.URL[:i], strings.TrimPrefix(d.URL[i:], "/")
	return v.Page("drain", p)
}

// saveDrain changes the settings of a drain. An empty secret stays what it was.
func saveDrain(v *ui.Visit, f *ui.Form, d *drainData) error {
	body := f.Entered("platform", "signing_secret", "verify_code")
	body["name"] = strings.TrimSpace(f.Value("name"))
	for _, name := range []string{"signing_secret", "verify_code"} {
		if body[name] == nil && f.Value("remove_"+name) == "true" {
			body[name] = nil
		}
	}
	f.AddVersion(body, d.Version, d.values())
	return v.Ask("PATCH "+drainAPI, f, body, nil, func() error { return showDrainForm(v, d, f) },
		ui.Opens(v, ui.PageOf(d.ID), "Saved"))
}

// drainPlatforms are the platforms of drains, as people choose them.
var drainPlatforms = []ui.Option{
	{Value: leak.PlatformAuto, Text: "Recognise it from each request"},
	{Value: leak.PlatformVercel, Text: "Vercel"},
	{Value: leak.PlatformHeroku, Text: "Heroku"},
	{Value: leak.PlatformFirehose, Text: "Amazon Data Firehose"},
	{Value: leak.PlatformCloudflare, Text: "Cloudflare Logpush"},
	{Value: leak.PlatformGeneric, Text: "Anything else"},
}

// DetectedName is the name of the platform that sent the newest request; empty if it is none that is known.
func (d *drainData) DetectedName() string {
	for _, p := range drainPlatforms[1:] {
		if p.Value != leak.PlatformGeneric && p.Value == ui.TextOf(d.DetectedPlatform) {
			return p.Text
		}
	}
	return ""
}

// IsFor reports whether the drain is set to that platform, or if it is set to none, its newest request came from it.
func (d *drainData) IsFor(platform string) bool {
	return d.Platform == platform || d.Platform == leak.PlatformAuto && ui.TextOf(d.DetectedPlatform) == platform
}

// LogpushDestination is the destination for Cloudflare, which sends the token as a header.
func (p *drainPageData) LogpushDestination() string {
	return p.WithoutToken + "?header_Authorization=" + url.PathEscape("Bearer "+p.Token)
}

// Paths of the pages of applications with the SDK. Each has a DSN.
const (
	applicationsPath = "/app/applications"
	applicationPath  = applicationsPath + "/{dsn}"
	dsnAPI           = "/v1/dsns/{dsn}"
)

// dsnData is a DSN of the API.
type dsnData struct{ apiDSN }

type apiDSN = routes.DSN // under another name than its member DSN

var readDSN = ui.ReadAt[dsnData](dsnAPI)

// IsBrowser reports whether everybody who opens the application can read its DSN.
func (d *dsnData) IsBrowser() bool { return d.Platform == leak.DSNBrowser }

// PlatformText names the platform.
func (d *dsnData) PlatformText() string { return ui.OptionText(dsnPlatforms, d.Platform) }

// dsnPlatforms are the platforms of DSNs, as people choose them.
var dsnPlatforms = []ui.Option{
	{Value: leak.DSNServer, Text: "A server"}, {Value: leak.DSNBrowser, Text: "Pages in browsers"},
}

var showApplications = ui.ListOf[*dsnData]("applications", "/v1/dsns", applicationsPath)

func newApplication(_ *ui.Visit, f *ui.Form) ui.Object {
	body := f.Entered("name")
	body["platform"] = f.Value("platform")
	return body
}

// applicationPageData is the data of the page of one application.
type applicationPageData struct {
	*dsnData
	Form          *ui.Form
	Package, File string // URL of the package of the SDK, and its name
	Origin        string // of the DSN, which the Content-Security-Policy of a page has to allow
}

// showApplication shows how to connect an application, and what it has reported.
func showApplication(v *ui.Visit, d *dsnData) error {
	return showApplicationForm(v, d, ui.NewForm(d.values(), strconv.Itoa(d.Version)))
}

// dsnFields are the settings of an application.
var dsnFields = ui.FieldTable{
	{ui.TrimmedField, "name"}, {ui.OptionalNumber, "daily_quota"}, {ui.LineField, "allowed_origins"},
}

func (d *dsnData) values() url.Values { return dsnFields.Values(d) }

// showApplicationForm shows the page of an application; f holds its settings.
func showApplicationForm(v *ui.Visit, d *dsnData, f *ui.Form) error {
	number, _, _ := strings.Cut(v.Config.Version, "+") // without the commit
	p := &applicationPageData{dsnData: d, Form: f, File: "eventrelay-sdk-" + number + ".tgz"}
	p.Package = v.Config.BaseURL + "/tools/" + p.File
	if u, err := url.Parse(d.DSN); err == nil {
		p.Origin = u.Scheme + "://" + u.Host
	}
	return v.Page("application", p)
}

// saveApplication changes the settings of an application.
func saveApplication(v *ui.Visit, f *ui.Form, d *dsnData) error {
	body := dsnFields.All(f)
	if !d.IsBrowser() {
		delete(body, "allowed_origins")
	}
	f.AddVersion(body, d.Version, d.values())
	err := v.Do("PATCH "+dsnAPI, f, body, nil)
	if x, ok := ui.BadRequest(err); ok {
		x.Param, _, _ = strings.Cut(x.Param, "[") // of a list: its field
	}
	return v.Answer(f, err, func() error { return showApplicationForm(v, d, f) },
		ui.Opens(v, ui.PageOf(d.ID), "Saved"))
}
