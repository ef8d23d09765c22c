// Package pages has the pages of findings and of what makes them: log drains, applications, domains, scans, tripwires
// and detection rules.
package pages

import (
	"embed"
	"html/template"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/web"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{
		Pages: files,
		Routes: []ui.Route{
			{"GET", ui.FindingsPath, ui.Reader, listFindings},
			{"GET", findingPath, ui.Reader, ui.Show(readFinding, showFinding)},
			{"POST", findingPath, ui.Writer, ui.Submit(setStatus)},
			{"GET", drainsPath, ui.Reader, ui.WithNewForm(showDrains)},
			{"POST", drainsPath, ui.Writer, ui.Create("POST /v1/drains", newDrain, showDrains, "Drain created")},
			{"GET", drainPath, ui.Reader, ui.Show(readDrain, showDrain)},
			{"POST", drainPath, ui.Writer, ui.Change(readDrain, saveDrain)},
			{"POST", drainPath + "/pause", ui.Writer, ui.Button("PATCH "+drainAPI, ui.Object{"status": "paused"},
				drainPath,
				"Paused. New lines are dropped.")},
			{"POST", drainPath + "/unpause", ui.Writer, ui.Button("PATCH "+drainAPI, ui.Object{"status": "active"},
				drainPath,
				"Unpaused. New lines are scanned.")},
			{"POST", drainPath + "/rotate", ui.Writer, ui.Button("POST "+drainAPI+"/rotate", nil, drainPath,
				"Rotated. The previous URL no longer works.")},
			{"POST", drainPath + "/delete", ui.Writer, ui.Button("DELETE "+drainAPI, nil, drainsPath,
				"Deleted. Its findings stay.")},
			{"GET", applicationsPath, ui.Reader, ui.WithNewForm(showApplications)},
			{"POST", applicationsPath, ui.Writer, ui.Create("POST /v1/dsns", newApplication, showApplications,
				"Application created")},
			{"GET", applicationPath, ui.Reader, ui.Show(readDSN, showApplication)},
			{"POST", applicationPath, ui.Writer, ui.Change(readDSN, saveApplication)},
			{"POST", applicationPath + "/rotate", ui.Writer, ui.Button("POST "+dsnAPI+"/rotate", nil, applicationPath,
				"Rotated. Reports with the previous DSN are refused.")},
			{"POST", applicationPath + "/delete", ui.Writer, ui.Button("DELETE "+dsnAPI, nil, applicationsPath,
				"Deleted. Its findings stay.")},
			{"GET", domainsPath, ui.Reader, ui.WithNewForm(showDomains)},
			{"POST", domainsPath, ui.Writer, ui.Create("POST /v1/domains", newDomain, showDomains, "Domain added")},
			{"GET", domainPath, ui.Reader, ui.Show(readDomain, showDomain)},
			{"POST", domainPath + "/verify", ui.Writer, ui.Submit(verifyDomain)},
			{"POST", domainPath + "/delete", ui.Writer, ui.Button("DELETE "+domainAPI, nil, domainsPath, "Deleted.")},
			{"POST", domainPath + "/scan", ui.Writer, ui.Create("POST /v1/scans", newScan, nil, "Scan started")},
			{"POST", domainPath + "/tripwires", ui.Writer, ui.Change(readDomain, createTripwire)},
			{"GET", tripwirePath, ui.Reader, ui.Show(readTripwire, showTripwire)},
			{"POST", tripwirePath + "/rotate", ui.Writer, ui.Change(readTripwire, rotateTripwire)},
			{"POST", tripwirePath + "/test", ui.Writer, ui.Button("POST "+tripwireAPI+"/test", nil, tripwirePath,
				"Touch it now: the next use from your address within ten minutes is a test.")},
			{"POST", tripwirePath + "/delete", ui.Writer, ui.Change(readTripwire, deleteTripwire)},
			{"GET", scansPath, ui.Reader, listScans},
			{"GET", scanPath, ui.Reader, ui.Show(ui.ReadAt[scanData]("/v1/scans/{scan}"), showScan)},
			{"GET", detectionPath, ui.Reader, ui.Show(readDetection, showDetection)},
			{"POST", detectionPath, ui.Writer, ui.Change(readDetection, saveRule)},
			{"POST", detectionPath + "/remove", ui.Writer, ui.Change(readDetection, removeRule)},
			{"POST", detectionPath + "/try", ui.Writer, ui.Change(readDetection, tryLine)},
		},
		Lists: map[string]ui.CSVList{
			"findings": {API: "/v1/findings", Filters: findingFilters, Columns: "id name rule severity status masked " +
				"first_seen last_seen occurrences environment release test unverified"},
		},
		Functions: func(d *ui.Dashboard) template.FuncMap {
			return template.FuncMap{
				"leaking":    func(at web.Time) bool { return d.Now().Sub(time.Time(at)) < leakingSpan },
				"platforms":  func() []ui.Option { return dsnPlatforms },
				"maxDomains": func() int { return leak.MaxDomains },
			}
		},
	}
}

//go:embed pages
var files embed.FS
