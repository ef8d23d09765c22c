package scan

import (
	"bytes"
	"html/template"
	"time"

	"github.com/eventrelay/relay/pkg/config/leak"
)

// AboutPath is the path of the page that the User-Agent of scans names.
const AboutPath = "/scan-bot"

// About returns that page: for people who find scans in the log of a website.
func About(b Budget) []byte {
	var buf bytes.Buffer
	err := aboutTemplate.Execute(&buf, map[string]any{
		"Budget": b, "Seconds": int(b.Time.Seconds()), "PerSecond": int(time.Second / b.Interval),
		"Concurrent": maxConcurrent, "SlowMinutes": int(slowFor.Minutes()), "PerDay": leak.MaxScansPerDay,
		"MiB": b.Body >> 20, "MapMiB": b.Map >> 20, "TotalMiB": b.Total >> 20, "Probes": probes,
	})
	if err != nil {
		panic("BUG: the page about scans: " + err.Error()) // its data are constants
	}
	return buf.Bytes()
}

// Path is where the file is looked for.
func (p probe) Path() string { return p.path }

var aboutTemplate = template.Must(template.New("about").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>RelayLeakScan</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body>
<h1>RelayLeakScan</h1>
<p>Requests with the User-Agent <code>RelayLeakScan/1</code> and the address of this page come from the leak scan of
this service. It reads a website as a visitor does, and looks for API keys and files that were published by mistake.</p>
<h2>Why it reads your website</h2>
<p>Somebody has added the host name here and has proven to control it, by a DNS record or by a file on the website. A
host name without such a proof gets no request, whatever redirects and links say.</p>
<h2>What it requests</h2>
<ul>
<li>The start page, <code>/sitemap.xml</code>, the pages that they link to, and the scripts and source maps of these
pages. Links with a query are not followed.</li>
<li>{{len .Probes}} paths at which files are often exposed by mistake:
{{range $i, $p := .Probes}}{{if $i}}, {{end}}<code>{{$p.Path}}</code>{{end}}.</li>
<li>One path that no website has, to learn how the website answers to those.</li>
</ul>
<p>It sends GET requests only, without cookies and credentials, and fills in no form. It keeps no page and no file: a
key that is found is reported to the owner of the host name, masked, and is never used. It does not read
<code>robots.txt</code>, which is about search engines: the owner has asked for the scan.</p>
<h2>How fast</h2>
<ul>
<li>{{.PerSecond}} requests a second to a host and {{.Concurrent}} at a time. Each answer 429 or 503 halves that for
{{.SlowMinutes}} minutes.</li>
<li>In one scan at most {{.Budget.Pages}} pages and {{.Budget.Resources}} other files, {{.TotalMiB}} MiB and
{{.Seconds}} seconds. Of one file it reads {{.MiB}} MiB, of a source map {{.MapMiB}} MiB.</li>
<li>One scan a week, and at most {{.PerDay}} a day when the owner asks for them.</li>
</ul>
<h2>How to make it stop</h2>
<ul>
<li>Remove the TXT record at <code>_relay-challenge.</code> and the host name, or the file
<code>/.well-known/relay-verify.txt</code>. The proof is looked for before each scan: without it there is none.</li>
<li>Or delete the domain in the dashboard of this service. That ends a scan that is running too.</li>
<li>Or refuse requests with this User-Agent. All of them have it.</li>
</ul>
</body></html>
`))
