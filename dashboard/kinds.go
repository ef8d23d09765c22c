package dashboard

import (
	"net/url"
	"strings"
)

// kind is a kind of thing of the API that has a page of its own.
type kind struct {
	variable  string // of the routes of its pages; empty: the API has no such thing
	prefix    string // of its ids
	page, api string // folders of its pages, and of it in the API; api is empty if variable is
	missing   string // what pages say if it does not exist
}

var kinds = []kind{
	{"endpoint", "ep_", endpointsPath, "/v1/endpoints", "There is no such endpoint. If it was deleted, in another tab " +
		"or by somebody else, nothing was changed now, and its events stay listed until their retention ends."},
	{"event", "evt_", eventsPath, "/v1/events", "There is no such event, or its retention has ended."},
	{"run", "run_", replaysPath, "/v1/replays", "There is no such replay, or it is older than 30 days."},
	{"recovery", "rec_", recoveriesPath, "/v1/recoveries", "There is no such recovery, or it is older than 30 days."},
	{"fixture", "fix_", fixturesPath, "/v1/fixtures", "There is no such fixture. It may have expired or been deleted, " +
		"or the payload of its event was erased."},
	{"finding", "fnd_", findingsPath, "/v1/findings", "There is no such finding. It is forgotten 400 days after it was " +
		"seen last."},
	{"drain", "drn_", drainsPath, "/v1/drains", "There is no such drain."},
	{"dsn", "dsn_", applicationsPath, "/v1/dsns", "There is no such application."},
	{"domain", "dom_", domainsPath, "/v1/domains", "There is no such domain."},
	{"tripwire", "trw_", "/app/tripwires", "/v1/tripwires", "There is no such tripwire. It may have been deleted."},
	{"scan", "scn_", scansPath, "/v1/scans", "There is no such scan. The newest hundred are kept."},
	{"", "act_", "/app/confirm", "", ""},
}

// kindOf returns the kind of the thing with that id; nil if it has no page of its own.
func kindOf(id string) *kind {
	for i := range kinds {
		if strings.HasPrefix(id, kinds[i].prefix) {
			return &kinds[i]
		}
	}
	return nil
}

// pageOf returns the page of the thing with that id; empty without an id, or if it has no page.
func pageOf(id string) string {
	if k := kindOf(id); k != nil {
		return k.page + "/" + url.PathEscape(id)
	}
	return ""
}

// destinationPageOf returns the page of a destination.
func destinationPageOf(endpoint, destination string) string {
	return pageOf(endpoint) + "/destinations/" + url.PathEscape(destination)
}

// apiOf returns the path in the API of the thing with that id.
func apiOf(id string) string {
	if k := kindOf(id); k != nil {
		return k.api + "/" + url.PathEscape(id)
	}
	return ""
}
