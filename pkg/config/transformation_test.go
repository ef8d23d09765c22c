package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/test/is"
)

func TestTransformationVersions(t *testing.T) {
	e := &Endpoint{}
	at := time.Unix(1_800_000_000, 0)
	drop := func(path string) []transform.Op { return []transform.Op{{Op: transform.Drop, Paths: []string{path}}} }
	set := func(version int, transforms bool, ops []transform.Op) {
		t.Helper()
		e.SetTransformation(ops, at, "key_1", "ci")
		if e.Transformation.Number() != version || e.Transformation.Transforms() != transforms {
			t.Errorf("version %d, transforms %v; want %d, %v", e.Transformation.Number(), e.Transformation.Transforms(),
				version, transforms)
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
	if len(all) != MaxTransformationVersions || !reflect.DeepEqual(all[0], want) || all[1].Operations != 1 {
		t.Errorf("%d versions, the newest %+v", len(all), all[0])
	}
}

// Earlier versions keep their operations, the newest of them as many bytes as there is room for, and say which was in
// force when.
func TestEarlierOperationsAreKept(t *testing.T) {
	e := &Endpoint{}
	began := time.Unix(1_800_000_000, 0)
	add := func(n, size int) []transform.Op {
		return []transform.Op{{Op: transform.Add, Path: fmt.Sprint("/", n), Value: json.RawMessage(`"` +
			strings.Repeat("v", size) + `"`)}}
	}
	has := func(version int, want []transform.Op, kept bool) {
		t.Helper()
		if got, ok := e.Transformation.OpsOf(version); ok != kept || !reflect.DeepEqual(got, want) {
			t.Errorf("version %d has %d operations, kept: %v", version, len(got), ok)
		}
	}
	has(0, nil, false)
	for n := range 3 {
		e.SetTransformation(add(n+1, 1), began.Add(time.Duration(n)*time.Hour), "key_1", "ci")
	}
	shared := e.Transformation // what other goroutines may still read
	e.SetTransformation(nil, began.Add(3*time.Hour), "key_1", "ci")
	has(1, add(1, 1), true)
	has(3, add(3, 1), true)
	has(4, nil, true)
	has(5, nil, false)
	if shared.Versions[0].Ops != nil {
		t.Error("an earlier copy was changed")
	}
	for after, version := range map[time.Duration]int{-1: 0, 0: 1, time.Hour: 2, 2*time.Hour - 1: 2, 9 * time.Hour: 4} {
		is.Equal(t, e.Transformation.VersionAt(began.Add(after)), version, "after %v version", after)
	}
	for n := range 40 {
		e.SetTransformation(add(n, transform.MaxValue-2), began, "key_1", "ci")
	}
	has(44, add(39, transform.MaxValue-2), true)
	has(43, add(38, transform.MaxValue-2), true)
	has(20, nil, false)
	has(1, nil, false)
	has(4, nil, true) // it had none
	if text, err := json.Marshal(e.Transformation.Versions); err != nil || len(text) > MaxEarlierOpsBytes+10<<10 {
		t.Errorf("versions take %d bytes, %v", len(text), err)
	}
}
