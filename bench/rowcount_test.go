package bench

import (
	"encoding/json"
	"testing"
)

// The rows of a list are counted; an event's own data are none, whatever they are.
func TestRowCount(t *testing.T) {
	for text, want := range map[string]rowCount{
		`{"data":[{"id":"evt_1"},{"id":"evt_2"}]}`: 2, `{"data":[]}`: 0, `{"data":{"n":1}}`: 0, `{"data":"text"}`: 0, `{}`: 0,
	} {
		var answer struct{ Data rowCount }
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Data != want {
			t.Errorf("%s has %d rows: %v", text, answer.Data, err)
		}
	}
}
