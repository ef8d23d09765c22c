package dashboard

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
)

// drainPlatforms are the platforms of drains, as people choose them.
var drainPlatforms = []option{
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
		if p.Value != config.PlatformGeneric && d.Platform != nil && p.Value == *d.Platform {
			return p.Text
		}
	}
	return ""
}

// IsFor reports whether the drain is set to that platform, or if it is set to none, its newest request came from it.
func (d *drainData) IsFor(platform string) bool {
	detected := d.OwnPlatform == config.PlatformAuto && d.Platform != nil && *d.Platform == platform
	return detected || d.OwnPlatform == platform
}

// WithoutToken is the URL for platforms that send the token in a header.
func (d *drainData) WithoutToken() string {
	before, _ := cutToken(d.URL)
	return before
}

// Token is the last part of the URL; masked for people who may only read.
func (d *drainData) Token() string {
	_, token := cutToken(d.URL)
	return token
}

func cutToken(drainURL string) (before, token string) {
	i := strings.LastIndexByte(drainURL, '/')
	if i < 0 {
		return drainURL, ""
	}
	return drainURL[:i], drainURL[i+1:]
}

// HerokuCommand adds the drain to an application.
func (d *drainData) HerokuCommand() string { return "heroku drains:add '" + d.URL + "' -a YOUR_APP" }

// LogpushDestination is the destination for Cloudflare, which sends the token as a header.
func (d *drainData) LogpushDestination() string {
	return d.WithoutToken() + "?header_Authorization=" + url.PathEscape("Bearer "+d.Token())
}

// LogpushCommand creates a job that pushes the requests of a zone.
func (d *drainData) LogpushCommand() string {
	return `curl "https://api.cloudflare.com/client/v4/zones/$ZONE_ID/logpush/jobs" \` + "\n" +
		`  -H "Authorization: Bearer $CLOUDFLARE_API_TOKEN" -H 'Content-Type: application/json' \` + "\n" +
		`  -d '{"name":"leaks","dataset":"http_requests","enabled":true,"destination_conf":"` + d.LogpushDestination() +
		`","output_options":{"field_names":["ClientRequestHost","ClientRequestURI","EdgeStartTimestamp","RayID"],` +
		`"timestamp_format":"rfc3339"}}'`
}

// shipper is the configuration of a log shipper that sends to the drain.
type shipper struct{ Name, Config string }

// Shippers are those of which people ask for the text most often. Each sends in batches, and again until it has an
// answer.
func (d *drainData) Shippers() []shipper {
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil
	}
	port, tls, https := u.Port(), "Off", "off"
	if u.Scheme == "https" {
		port, tls, https = cmp.Or(port, "443"), "On", "on"
	}
	return []shipper{
		{"syslog-ng", "destination d_leaks {\n  http(url(\"" + d.URL + "\") method(\"POST\")\n    body(\"${MESSAGE}\") " +
			`delimiter("\n") batch-lines(500) batch-timeout(1000)` + "\n    time-reopen(1) retries(100000));\n};\n" +
			"# give sources log-iw-size(10000), or a batch has 100 lines"},
		{"rsyslog", "module(load=\"omhttp\")\naction(type=\"omhttp\" server=\"" + u.Hostname() + "\" serverport=\"" +
			cmp.Or(port, "80") + "\"\n  usehttps=\"" + https + "\" restpath=\"" + strings.TrimPrefix(u.Path, "/") +
			"\"\n  batch=\"on\" batch.format=\"newline\" action.resumeRetryCount=\"-1\")"},
		{"Vector", "[sinks.leaks]\ntype = \"http\"\ninputs = [\"YOUR_SOURCE\"]\nuri = \"" + d.URL +
			"\"\nencoding.codec = \"json\"\nframing.method = \"newline_delimited\"\ncompression = \"gzip\""},
		{"Fluent Bit", "[OUTPUT]\n  Name http\n  Match *\n  Host " + u.Hostname() + "\n  Port " + cmp.Or(port, "80") +
			"\n  URI " + u.Path + "\n  Format json_lines\n  compress gzip\n  tls " + tls + "\n  Retry_Limit no_limits"},
	}
}

// saveDrain changes the settings of a drain. An empty secret stays what it was.
func saveDrain(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	d, err := readDrain(v)
	if err != nil {
		return err
	}
	body := map[string]any{"name": strings.TrimSpace(f.Value("name"))}
	if platform := f.Value("platform"); platform != "" {
		body["platform"] = platform
	}
	for _, name := range []string{"signing_secret", "verify_code"} {
		if text := strings.TrimSpace(f.Value(name)); text != "" {
			body[name] = text
		} else if f.Value("remove_"+name) == "true" {
			body[name] = nil
		}
	}
	f.addVersion(body)
	err = v.send("PATCH", d.api(), body, "", nil)
	if x, ok := badRequest(err); ok {
		if x.isOtherVersion() {
			v.status = f.setStale(strconv.Itoa(d.Version), map[string]string{"name": d.Name, "platform": d.OwnPlatform})
		} else {
			v.status = f.setError(x)
		}
		return showDrainForm(v, d, f)
	} else if err != nil {
		return err
	}
	return v.redirect(d.Path(), "Saved")
}
