package bench

import (
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/tools/bench/fill"
)

// The rows of a list are counted; an event's own data are none, whatever they are.
func TestOnlyRowsOfListsAreCounted(t *testing.T) {
	for text, want := range map[string]rowCount{
		`{"data":[{"id":"evt_1"},{"id":"evt_2"}]}`: 2, `{"data":[]}`: 0, `{"data":{"n":1}}`: 0, `{"data":"text"}`: 0, `{}`: 0,
	} {
		var answer struct{ Data rowCount }
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Data != want {
			t.Errorf("%s has %d rows: %v", text, answer.Data, err)
		}
	}
}

// One status that the list does not know would end the whole run.
func TestReadStatusesExistInTheAPI(t *testing.T) {
	document := must.Get(os.ReadFile("../../api/openapi/events.yaml"))(t)
	enum := regexp.MustCompile(`EventStatus:\n\s+type: string\n\s+enum: \[(.*)\]`).FindSubmatch(document)
	if enum == nil {
		t.Fatal("the document has no statuses: this test looks for the wrong text")
	}
	known, asked := strings.Split(string(enum[1]), ", "), 0
	one := fill.Endpoint{ID: "ep_1", Dests: []fill.Destination{{ID: "dst_1"}}}
	m := &readBench{endpoints: []fill.Endpoint{one, one}, eventIDs: []string{"evt_1"}}
	for _, k := range m.kinds() {
		u := must.Get(url.Parse(k.path(0)))(t)
		if status := u.Query().Get("status"); status != "" {
			asked++
			if !slices.Contains(known, status) {
				t.Errorf("%s asks for %s, which is none of %v", k.name, status, known)
			}
		}
	}
	if asked < len(known) {
		t.Errorf("%d kinds ask for a status", asked)
	}
}
