// Package pages has the pages of findings and of what makes them: log drains, applications, domains, scans, tripwires
// and detection rules.
package pages

import (
	"embed"
	"html/template"
	"time"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/web"
)

// Area returns the pages of this package.
func Area() frame.Area {
	return frame.Area{
		Pages: files,
		Routes: []frame.Route{
			{"GET", frame.FindingsPath, frame.Reader, listFindings},
			{"GET", findingPath, frame.Reader, frame.Show(readFinding, showFinding)},
			{"POST", findingPath, frame.Writer, frame.Submit(setStatus)},
			{"GET", drainsPath, frame.Reader, frame.WithNewForm(showDrains)},
			{"POST", drainsPath, frame.Writer, frame.Create("POST /v1/drains", newDrain, showDrains, "Drain created")},
			{"GET", drainPath, frame.Reader, frame.Show(readDrain, showDrain)},
			{"POST", drainPath, frame.Writer, frame.Change(readDrain, saveDrain)},
			{"POST", drainPath + "/pause", frame.Writer, frame.Button("PATCH "+drainAPI, frame.Object{"status": "paused"},
				drainPath,
				"Paused. New lines are dropped.")},
			{"POST", drainPath + "/unpause", frame.Writer, frame.Button("PATCH "+drainAPI, frame.Object{"status": "active"},
				drainPath,
				"Unpaused. New lines are scanned.")},
			{"POST", drainPath + "/rotate", frame.Writer, frame.Button("POST "+drainAPI+"/rotate", nil, drainPath,
				"Rotated. The previous URL no longer works.")},
			{"POST", drainPath + "/delete", frame.Writer, frame.Button("DELETE "+drainAPI, nil, drainsPath,
				"Deleted. Its findings stay.")},
			{"GET", applicationsPath, frame.Reader, frame.WithNewForm(showApplications)},
			{"POST", applicationsPath, frame.Writer, frame.Create("POST /v1/dsns", newApplication, showApplications,
				"Application created")},
			{"GET", applicationPath, frame.Reader, frame.Show(readDSN, showApplication)},
			{"POST", applicationPath, frame.Writer, frame.Change(readDSN, saveApplication)},
			{"POST", applicationPath + "/rotate", frame.Writer, frame.Button("POST "+dsnAPI+"/rotate", nil, applicationPath,
				"Rotated. Reports with the previous DSN are refused.")},
			{"POST", applicationPath + "/delete", frame.Writer, frame.Button("DELETE "+dsnAPI, nil, applicationsPath,
				"Deleted. Its findings stay.")},
			{"GET", domainsPath, frame.Reader, frame.WithNewForm(showDomains)},
			{"POST", domainsPath, frame.Writer, frame.Create("POST /v1/domains", newDomain, showDomains, "Domain added")},
			{"GET", domainPath, frame.Reader, frame.Show(readDomain, showDomain)},
			{"POST", domainPath + "/verify", frame.Writer, frame.Submit(verifyDomain)},
			{"POST", domainPath + "/delete", frame.Writer, frame.Button("DELETE "+domainAPI, nil, domainsPath, "Deleted.")},
			{"POST", domainPath + "/scan", frame.Writer, frame.Create("POST /v1/scans", newScan, nil, "Scan started")},
			{"POST", domainPath + "/tripwires", frame.Writer, frame.Change(readDomain, createTripwire)},
			{"GET", tripwirePath, frame.Reader, frame.Show(readTripwire, showTripwire)},
			{"POST", tripwirePath + "/rotate", frame.Writer, frame.Change(readTripwire, rotateTripwire)},
			{"POST", tripwirePath + "/test", frame.Writer, frame.Button("POST "+tripwireAPI+"/test", nil, tripwirePath,
				"Touch it now: the next use from your address within ten minutes is a test.")},
			{"POST", tripwirePath + "/delete", frame.Writer, frame.Change(readTripwire, deleteTripwire)},
			{"GET", scansPath, frame.Reader, listScans},
			{"GET", scanPath, frame.Reader, frame.Show(frame.ReadAt[scanData]("/v1/scans/{scan}"), showScan)},
			{"GET", detectionPath, frame.Reader, frame.Show(readDetection, showDetection)},
			{"POST", detectionPath, frame.Writer, frame.Change(readDetection, saveRule)},
			{"POST", detectionPath + "/remove", frame.Writer, frame.Change(readDetection, removeRule)},
			{"POST", detectionPath + "/try", frame.Writer, frame.Change(readDetection, tryLine)},
		},
		Lists: map[string]frame.CSVList{
			"findings": {API: "/v1/findings", Filters: findingFilters, Columns: "id name rule severity status masked " +
				"first_seen last_seen occurrences environment release test unverified"},
		},
		Functions: func(d *frame.Dashboard) template.FuncMap {
			return template.FuncMap{
				"leaking":    func(at web.Time) bool { return d.Now().Sub(time.Time(at)) < leakingSpan },
				"platforms":  func() []frame.Option { return dsnPlatforms },
				"maxDomains": func() int { return leak.MaxDomains },
			}
		},
	}
}

//go:embed pages
var files embed.FS
