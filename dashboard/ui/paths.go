package ui

import (
	"net/url"
	"strings"
)

// Paths of pages that pages of other areas lead to.
const (
	EndpointsPath    = "/app/endpoints"
	EndpointPath     = EndpointsPath + "/{endpoint}"
	DestinationPath  = EndpointPath + "/destinations/{destination}"
	EventsPath       = "/app/events"
	EventPath        = EventsPath + "/{event}"
	ReplaysPath      = "/app/replays"
	NewReplayPath    = ReplaysPath + "/new"
	RecoveriesPath   = "/app/recoveries"
	NewRecoveryPath  = RecoveriesPath + "/new"
	FindingsPath     = "/app/findings"
	IssuesPath       = "/app/issues"
	AlertHistoryPath = "/app/alerts/history"
	SamplePath       = "/app/sample"
	KeysPath         = "/app/settings/keys"
	AgentsPath       = "/app/settings/agents"
	SignInPath       = "/app/sign-in"
	IssuerPath       = "/app/sign-in/issuer"
	SignOutPath      = "/app/sign-out"
	PasswordPath     = "/app/password" // for people who come by a one-time link
)

// resource is a kind of resource of the API that has a page of its own.
type resource struct {
	variable  string // in the routes of its pages; empty: the API has no such resource
	prefix    string // of its ids
	Page, api string // parent paths of its pages, and in the API; api is empty if variable is
	missing   string // what pages say if it does not exist
}

var resources = []resource{
	{"endpoint", "ep_", EndpointsPath, "/v1/endpoints", "There is no such endpoint. If it was deleted, in another tab " +
		"or by somebody else, nothing was changed now, and its events stay listed until their retention ends."},
	{"event", "evt_", EventsPath, "/v1/events", "There is no such event, or its retention has ended."},
	{"run", "run_", ReplaysPath, "/v1/replays", "There is no such replay, or it is older than 30 days."},
	{"recovery", "rec_", RecoveriesPath, "/v1/recoveries", "There is no such recovery, or it is older than 30 days."},
	{"fixture", "fix_", "/app/fixtures", "/v1/fixtures",
		"There is no such fixture. It may have expired or been deleted, " +
			"or the payload of its event was erased."},
	{"finding", "fnd_", FindingsPath, "/v1/findings", "There is no such finding. It is forgotten 400 days after it was " +
		"seen last."},
	{"drain", "drn_", "/app/drains", "/v1/drains", "There is no such drain."},
	{"dsn", "dsn_", "/app/applications", "/v1/dsns", "There is no such application."},
	{"domain", "dom_", "/app/domains", "/v1/domains", "There is no such domain."},
	{"tripwire", "trw_", "/app/tripwires", "/v1/tripwires", "There is no such tripwire. It may have been deleted."},
	{"scan", "scn_", "/app/scans", "/v1/scans", "There is no such scan. The newest hundred are kept."},
	{"issue", "iss_", IssuesPath, "/v1/issues", "There is no such issue. It is removed 30 days after the last failure."},
	{"event_type", "event type ", "/app/event-types", "/v1/event_types", "There is no such event type."}, // it has no id
	{"", "act_", "/app/confirm", "", ""},
}

// ResourceOf returns the kind of the resource with that id; nil if it has no page of its own.
func ResourceOf(id string) *resource {
	for i := range resources {
		if strings.HasPrefix(id, resources[i].prefix) {
			return &resources[i]
		}
	}
	return nil
}

// PageOf returns the page of the resource with that id; empty without an id, or if it has no page.
func PageOf(id string) string {
	if k := ResourceOf(id); k != nil {
		return k.Page + "/" + url.PathEscape(id)
	}
	return ""
}

// DestinationPageOf returns the page of a destination.
func DestinationPageOf(endpoint, destination string) string {
	return PageOf(endpoint) + "/destinations/" + url.PathEscape(destination)
}

// APIOf returns the path in the API of the resource with that id.
func APIOf(id string) string {
	if k := ResourceOf(id); k != nil {
		return k.api + "/" + url.PathEscape(id)
	}
	return ""
}
