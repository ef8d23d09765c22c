package audit_test

import (
	"testing"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/stream"
)

// An entry that can be read can be written and read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"aud_01m7w6h6kk00r00w2s1cbs4f8h","account":"acc_1","action":"a.b"}`))
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := audit.Decode(&stream.Record{Value: value})
		if err != nil {
			return
		}
		r, err := e.Record()
		if err != nil {
			t.Skip("a year that JSON cannot have") // Decode reads what encoding/json reads
		}
		if again, err := audit.Decode(r); err != nil || again.ID != e.ID || again.Action != e.Action {
			t.Fatalf("%v: %+v", err, e)
		}
	})
}
