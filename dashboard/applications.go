package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of applications with the SDK. Each has a DSN.
const (
	applicationsPath = "/app/applications"
	applicationPath  = applicationsPath + "/{dsn}"
)

// dsnData is a DSN of the API.
type dsnData struct {
	ID             string   `json:"id"`
	Name           string   `json:"name"`
	Platform       string   `json:"platform"`
	DSN            string   `json:"dsn"`
	Origins        []string `json:"allowed_origins"`
	Quota          *int64   `json:"daily_quota"`
	SDK            *string  `json:"sdk"`
	LastReceivedAt string   `json:"last_received_at"`
	Requests       *int64   `json:"requests_24h"`
	Reports        *int64   `json:"reports_24h"`
	Hits           *int64   `json:"hits_24h"`
	Rejected       *int64   `json:"rejected_24h"`
	LastError      *string  `json:"last_error"`
	Version        int      `json:"version"`
	CreatedAt      string   `json:"created_at"`
}

// Path is the page of the application.
func (d *dsnData) Path() string { return applicationsPath + "/" + url.PathEscape(d.ID) }

func (d *dsnData) api() string { return "/v1/dsns/" + url.PathEscape(d.ID) }

// IsBrowser reports whether everybody who opens the application can read its DSN.
func (d *dsnData) IsBrowser() bool { return d.Platform == config.DSNBrowser }

// PlatformText names the platform.
func (d *dsnData) PlatformText() string { return optionText(dsnPlatforms, d.Platform) }

// Unknown reports whether the store, which knows what was reported, does not answer.
func (d *dsnData) Unknown() bool { return d.Requests == nil }

// ReportCount and the counts beside it are those of the last 24 hours.
func (d *dsnData) ReportCount() int64 { return count(d.Reports) }

// HitCount counts each secret as often as it occurred.
func (d *dsnData) HitCount() int64 { return count(d.Hits) }

// RejectedCount counts requests.
func (d *dsnData) RejectedCount() int64 { return count(d.Rejected) }

// QuotaCount is 0 if there is none.
func (d *dsnData) QuotaCount() int64 { return count(d.Quota) }

// dsnErrors says what to do about a request that was refused, by the word of the API.
var dsnErrors = map[string]string{
	"wrong_origin":   "A request was refused: its page is of an origin that is not allowed. Add it under Settings.",
	"rate_limited":   "A request was refused: there were more than 600 in a minute. The SDK sends it again.",
	"too_large":      "A request was refused: it was too large. The SDK sends at most 128 KiB, in browsers 60,000 bytes.",
	"unreadable":     "A request was refused: it was no batch of the SDK.",
	"unavailable":    "A request was refused: the log of this service did not answer. The SDK sends it again.",
	"masking_failed": "The application could not mask some lines of its log and withheld them.",
}

// Trouble is what went wrong last, in a sentence; empty if nothing did.
func (d *dsnData) Trouble() string {
	if d.LastError == nil {
		return ""
	}
	if text := dsnErrors[*d.LastError]; text != "" {
		return text
	}
	return "A request was refused: " + *d.LastError + "."
}

// dsnPlatforms are the platforms of DSNs, as people choose them.
var dsnPlatforms = []option{
	{Value: config.DSNServer, Text: "A server"},
	{Value: config.DSNBrowser, Text: "Pages in browsers"},
}

func optionText(options []option, value string) string {
	for _, o := range options {
		if o.Value == value {
			return o.Text
		}
	}
	return value
}

// applicationsPage is the data of the list of applications.
type applicationsPage struct {
	DSNs      []*dsnData
	Form      *form
	Platforms []option
	First     bool
	Next      string // path of the next page; empty: there is none
}

func listApplications(v *visit) error { return showApplications(v, newForm(url.Values{}, "")) }

func showApplications(v *visit, f *form) error {
	var list struct {
		Data       []*dsnData `json:"data"`
		NextCursor string     `json:"next_cursor"`
	}
	query, p := url.Values{"limit": {"50"}}, applicationsPage{First: true, Form: f, Platforms: dsnPlatforms}
	if cursor := v.r.URL.Query().Get("cursor"); cursor != "" && v.r.Method == http.MethodGet {
		query.Set("cursor", cursor)
		p.First = false
	}
	if err := v.get("/v1/dsns", query, &list); err != nil {
		return err
	}
	p.DSNs = list.Data
	if list.NextCursor != "" {
		p.Next = applicationsPath + "?" + url.Values{"cursor": {list.NextCursor}}.Encode()
	}
	return v.page("applications", p)
}

// createApplication creates a DSN and opens its page, which says how to connect the application.
func createApplication(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	body := map[string]any{"platform": f.Value("platform")}
	if name := strings.TrimSpace(f.Value("name")); name != "" {
		body["name"] = name
	}
	var d dsnData
	err = v.send("POST", "/v1/dsns", body, f.Nonce, &d)
	if x, ok := errors.AsType[*apiError](err); ok && (x.Status == http.StatusBadRequest || x.Status >= 500) {
		v.status = f.setError(x)
		return showApplications(v, f)
	} else if err != nil {
		return err
	}
	return v.redirect(d.Path(), "Application created")
}

// applicationPageData is the data of the page of one application.
type applicationPageData struct {
	*dsnData
	Form *form
	// Package is the URL of the package of the SDK, File its name.
	Package, File string
}

// OnlyHere reports whether the DSN names this machine alone, so no application elsewhere can report.
func (p *applicationPageData) OnlyHere() bool { return isOnlyHere(p.DSN) }

// readDSN returns the DSN in the path.
func readDSN(v *visit) (*dsnData, error) {
	d := &dsnData{}
	err := v.get("/v1/dsns/"+v.vars["dsn"], nil, d)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusNotFound {
		return nil, web.Missing("There is no such application.")
	}
	return d, err
}

// showApplication shows how to connect an application, and what it has reported.
func showApplication(v *visit) error {
	d, err := readDSN(v)
	if err != nil {
		return err
	}
	return showApplicationForm(v, d, newForm(d.values(), strconv.Itoa(d.Version)))
}

// values are the stored values of the fields of the settings.
func (d *dsnData) values() url.Values {
	values := url.Values{"name": {d.Name}, "allowed_origins": {strings.Join(d.Origins, "\n")}}
	if d.Quota != nil {
		values.Set("daily_quota", strconv.FormatInt(*d.Quota, 10))
	}
	return values
}

// otherThan are the stored values of the fields that a form has with another value.
func (d *dsnData) otherThan(f *form) map[string]string {
	stored, other := d.values(), map[string]string{}
	for _, name := range []string{"name", "daily_quota", "allowed_origins"} {
		if value := stored.Get(name); unixLines(f.Value(name)) != value {
			other[name] = value
		}
	}
	return other
}

// showApplicationForm shows the page of an application; f holds its settings.
func showApplicationForm(v *visit, d *dsnData, f *form) error {
	number, _, _ := strings.Cut(v.cfg.Version, "+") // without the commit
	file := "eventrelay-sdk-" + number + ".tgz"
	return v.page("application", &applicationPageData{d, f, v.cfg.BaseURL + "/tools/" + file, file})
}

// InstallCommand keeps the package in the application's repository: its lockfile then needs no other machine.
func (p *applicationPageData) InstallCommand() string {
	return "mkdir -p vendor && curl -fsSo vendor/" + p.File + " " + p.Package + "\nnpm install ./vendor/" + p.File
}

// NodeCommand starts an application of Node.js.
func (p *applicationPageData) NodeCommand() string {
	return "RELAY_DSN='" + p.DSN + "' RELAY_ENVIRONMENT=production \\\n  node --import @eventrelay/sdk/register app.js"
}

// NextCode is the file instrumentation.js of Next.js.
func (p *applicationPageData) NextCode() string {
	return "export async function register() {\n  if (process.env.NEXT_RUNTIME === 'nodejs') {\n" +
		"    const { init } = await import('@eventrelay/sdk')\n    init({ dsn: '" + p.DSN +
		"', environment: 'production' })\n  }\n}"
}

// BrowserCode is the first module of a page.
func (p *applicationPageData) BrowserCode() string {
	return "import { init } from '@eventrelay/sdk'\ninit({ dsn: '" + p.DSN + "', environment: 'production' })"
}

// ImportMap lets a page without a bundler find the module for browsers.
func (p *applicationPageData) ImportMap() string {
	return `<script type="importmap">{ "imports": { "@eventrelay/sdk": "/browser.js" } }</script>`
}

// TestCode reports a key that opens nothing. In browsers it belongs below BrowserCode.
func (p *applicationPageData) TestCode() string {
	if p.IsBrowser() {
		return "import { sendTest } from '@eventrelay/sdk'\nsendTest()"
	}
	return "import { init, sendTest, flush } from '@eventrelay/sdk'\ninit({ dsn: '" + p.DSN +
		"' })\nsendTest()\nawait flush()"
}

// ReportOrigin is what a page's Content-Security-Policy has to allow.
func (p *applicationPageData) ReportOrigin() string {
	u, err := url.Parse(p.DSN)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// saveApplication changes the settings of an application.
func saveApplication(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	d, err := readDSN(v)
	if err != nil {
		return err
	}
	body := map[string]any{"name": strings.TrimSpace(f.Value("name")), "daily_quota": nil}
	if quota := strings.TrimSpace(f.Value("daily_quota")); quota != "" {
		body["daily_quota"] = quota // the API says what is wrong with what is no number
		if n, err := strconv.Atoi(quota); err == nil {
			body["daily_quota"] = n
		}
	}
	if d.IsBrowser() {
		body["allowed_origins"] = append([]string{}, strings.Fields(f.Value("allowed_origins"))...)
	}
	f.addVersion(body)
	err = v.send("PATCH", d.api(), body, "", nil)
	if x, ok := badRequest(err); ok {
		if x.isOtherVersion() {
			v.status = f.setStale(strconv.Itoa(d.Version), d.otherThan(f))
		} else {
			v.status = f.setError(x)
			f.Param, _, _ = strings.Cut(f.Param, "[") // of a list: its field
		}
		return showApplicationForm(v, d, f)
	} else if err != nil {
		return err
	}
	return v.redirect(d.Path(), "Saved")
}

// rotateApplication gives an application another DSN.
func rotateApplication(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	d, err := readDSN(v)
	if err != nil {
		return err
	}
	if err := v.send("POST", d.api()+"/rotate", map[string]any{}, f.Nonce, nil); err != nil {
		return err
	}
	return v.redirect(d.Path(), "Rotated. Reports with the previous DSN are refused.")
}

func deleteApplication(v *visit) error {
	if _, err := v.form(); err != nil {
		return err
	}
	d, err := readDSN(v)
	if err != nil {
		return err
	}
	if err := v.send("DELETE", d.api(), nil, "", nil); err != nil {
		return err
	}
	return v.redirect(applicationsPath, "Deleted. Its findings stay.")
}
