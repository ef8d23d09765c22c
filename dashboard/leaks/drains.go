package leaks

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
)

// Paths of the pages of log drains.
const (
	drainsPath = "/app/drains"
	drainPath  = drainsPath + "/{drain}"
	drainAPI   = "/v1/drains/{drain}"
)

// drainData is a drain of the API.
type drainData struct{ wire.Drain }

var readDrain = frame.ReadAt[drainData](drainAPI)

var showDrains = frame.ListOf[*drainData]("drains", "/v1/drains", drainsPath)

func newDrain(_ *frame.Visit, f *frame.Form) frame.Object { return f.Entered("name") }

// drainPageData is the data of the page of one drain.
type drainPageData struct {
	*drainData
	Form      *frame.Form
	Decoy     string // a key that is marked as a test wherever it is found
	Platforms []frame.Option
	// URL in parts, for the settings of log shippers.
	Host, Port, Path string
	TLS              bool
	// The last part of the URL is a token, which some platforms send in a header: it is masked for people who may only
	// read.
	WithoutToken, Token string
}

// showDrain shows how to send lines to a drain, and what it has received.
func showDrain(v *frame.Visit, d *drainData) error {
	return showDrainForm(v, d, frame.NewForm(d.values(), strconv.Itoa(d.Version)))
}

func (d *drainData) values() url.Values {
	return url.Values{"name": {d.Name}, "platform": {d.Platform}}
}

// showDrainForm shows the page of a drain; f holds its settings.
func showDrainForm(v *frame.Visit, d *drainData, f *frame.Form) error {
	p := &drainPageData{drainData: d, Form: f, Decoy: apikey.NewDecoy(), Platforms: drainPlatforms}
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
func saveDrain(v *frame.Visit, f *frame.Form, d *drainData) error {
	body := f.Entered("platform", "signing_secret", "verify_code")
	body["name"] = strings.TrimSpace(f.Value("name"))
	for _, name := range []string{"signing_secret", "verify_code"} {
		if body[name] == nil && f.Value("remove_"+name) == "true" {
			body[name] = nil
		}
	}
	f.AddVersion(body, d.Version, d.values())
	return v.Ask("PATCH "+drainAPI, f, body, nil, func() error { return showDrainForm(v, d, f) },
		frame.Opens(v, frame.PageOf(d.ID), "Saved"))
}

// drainPlatforms are the platforms of drains, as people choose them.
var drainPlatforms = []frame.Option{
	{Value: config.PlatformAuto, Text: "Recognise it from each request"},
	{Value: config.PlatformVercel, Text: "Vercel"},
	{Value: config.PlatformHeroku, Text: "Heroku"},
	{Value: config.PlatformFirehose, Text: "Amazon Data Firehose"},
	{Value: config.PlatformCloudflare, Text: "Cloudflare Logpush"},
	{Value: config.PlatformGeneric, Text: "Anything else"},
}

// DetectedName is the name of the platform that sent the newest request; empty if it is none that is known.
func (d *drainData) DetectedName() string {
	for _, p := range drainPlatforms[1:] {
		if p.Value != config.PlatformGeneric && p.Value == frame.TextOf(d.DetectedPlatform) {
			return p.Text
		}
	}
	return ""
}

// IsFor reports whether the drain is set to that platform, or if it is set to none, its newest request came from it.
func (d *drainData) IsFor(platform string) bool {
	return d.Platform == platform || d.Platform == config.PlatformAuto && frame.TextOf(d.DetectedPlatform) == platform
}

// LogpushDestination is the destination for Cloudflare, which sends the token as a header.
func (p *drainPageData) LogpushDestination() string {
	return p.WithoutToken + "?header_Authorization=" + url.PathEscape("Bearer "+p.Token)
}
