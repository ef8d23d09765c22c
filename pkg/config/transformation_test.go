package config

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/transform"
)

func TestTransformationVersions(t *testing.T) {
	e := &Endpoint{}
	at := time.Unix(1_800_000_000, 0)
	drop := func(path string) []transform.Op { return []transform.Op{{Op: transform.Drop, Paths: []string{path}}} }
	set := func(version int, transforms bool, ops []transform.Op) {
		t.Helper()
		e.SetTransformation(ops, at, "key_1", "ci")
		if e.TransformationVersion() != version || e.Transforms() != transforms {
			t.Errorf("version %d, transforms %v; want %d, %v", e.TransformationVersion(), e.Transforms(), version, transforms)
		}
	}
	set(0, false, nil)
	set(1, true, drop("/a"))
	set(1, true, drop("/a"))
	shared := e.Transformation // what other goroutines may still read
	set(2, true, drop("/b"))
	set(3, false, nil)
	set(3, false, []transform.Op{})
	set(4, true, drop("/a"))
	if shared.Version != 1 || shared.Ops[0].Paths[0] != "/a" || len(shared.Versions) != 1 {
		t.Errorf("an earlier copy was changed: %+v", shared)
	}
	value := []transform.Op{{Op: transform.Add, Path: "/n", Value: json.RawMessage("null")}}
	set(5, true, value)
	value[0].Value[0] = 'x'
	stored, err := json.Marshal(e)
	var back Endpoint
	if err != nil || json.Unmarshal(stored, &back) != nil || string(back.Transformation.Ops[0].Value) != "null" {
		t.Errorf("%s became %+v, %v", stored, back.Transformation, err)
	}
	for range 2 * MaxTransformationVersions {
		e.SetTransformation(drop("/a"), at, "key_1", "ci")
		e.SetTransformation(nil, at, "usr_1", "a@example.com")
	}
	all := e.Transformation.Versions
	want := TransformationVersion{Version: 5 + 4*MaxTransformationVersions, At: at, By: "usr_1", Name: "a@example.com"}
	if len(all) != MaxTransformationVersions || all[0] != want || all[1].Operations != 1 {
		t.Errorf("%d versions, the newest %+v", len(all), all[0])
	}
}
