package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

// plantUnknown adds an unknown member to every object of a document that corresponds to a struct, and returns the
// number of objects.
func plantUnknown(v reflect.Value, raw any, n *int) any {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch o := raw.(type) {
	case map[string]any:
		if v.Kind() != reflect.Struct {
			return raw
		}
		for _, f := range reflect.VisibleFields(v.Type()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if sub, there := o[name]; there && !f.Anonymous {
				o[name] = plantUnknown(v.FieldByIndex(f.Index), sub, n)
			}
		}
		o["of_tomorrow"] = map[string]any{"n": *n}
		*n++
	case []any:
		for i := range o {
			if v.Kind() == reflect.Slice && i < v.Len() {
				o[i] = plantUnknown(v.Index(i), o[i], n)
			}
		}
	}
	return raw
}

// countUnknown counts the objects that have the planted member.
func countUnknown(raw any) (n int) {
	switch o := raw.(type) {
	case map[string]any:
		if _, there := o["of_tomorrow"]; there {
			n++
		}
		for name, sub := range o {
			if name != "of_tomorrow" {
				n += countUnknown(sub)
			}
		}
	case []any:
		for _, sub := range o {
			n += countUnknown(sub)
		}
	}
	return n
}

func decodedJSON(t *testing.T, raw []byte) (v any) {
	t.Helper()
	noError(t, json.Unmarshal(raw, &v))
	return v
}

// In every object of every kind, a member that a newer version has written survives a change by this version, whichever
// function makes it. An object that is removed takes its members with it.
func TestUnknownMembersSurvive(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	for k := conflog.FirstCallerKind; k < entity.NumKinds; k++ {
		t.Run(n.KindName(k), func(t *testing.T) {
			v := kindTable[k].Empty()
			fill(reflect.ValueOf(v).Elem(), n.KindName(k), map[seal.Secret]bool{})
			name := n.KindName(k) + "_planted"
			reflect.ValueOf(v).Elem().FieldByName("ID").SetString(name)
			hash := entity.HashOf(name)
			switch v := v.(type) {
			case *Endpoint:
				v.TokenHash, v.FormerToken = hash[:], &FormerToken{}
			case *Key:
				v.Hash = hash[:]
			case *leak.Drain:
				v.Hash = hash[:]
			case *leak.Domain:
				v.Hash = hash[:]
			case *leak.Scan:
				v.Hash = nil
			case *leak.DSN:
				v.Hash = hash[:]
			case *leak.Tripwire:
				v.Key, v.URL = &leak.TripwireSecret{Hash: hash[:]}, nil
			}
			objects := 0
			raw := mustJSON(t, plantUnknown(reflect.ValueOf(v), decodedJSON(t, mustJSON(t, v)), &objects))
			if k == entity.KindAccount {
				noError(t, n.Adopt(t.Context(), k, name, raw))
			} else if _, err := n.Create(t.Context(), k, name, raw); err != nil {
				t.Fatal(err)
			}
			_, w, err := n.Replace(t.Context(), k, name, func(old entity.Value) (entity.Value, error) {
				again, err := kindTable.Decode(k, mustJSON(t, old))
				for _, at := range []string{"CreatedAt"} {
					f := reflect.ValueOf(again).Elem().FieldByName(at)
					f.Set(reflect.ValueOf(n.Clock().UTC()))
				}
				return again, err
			})
			if err != nil {
				t.Fatal(err)
			}
			after := n.Value(w.Entity)
			if got := countUnknown(decodedJSON(t, after)); got != objects || w.Entity.Rev == w.Entity.Seq {
				t.Errorf("%d of %d members are left: %s", got, objects, after)
			}
		})
	}
}

// An unknown member survives changes of an endpoint and its destinations, a rotation and a move.
func TestUnknownMembersSurviveTheAPI(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	e := n.create(t)
	raw := string(n.Value(n.View().FindLiving(entity.KindEndpoint, e.ID)))
	raw = strings.Replace(raw, `"url":`, `"of_tomorrow":1,"url":`, 1)
	raw = strings.Replace(raw, `"name":`, `"of_tomorrow":1,"name":`, 1)
	old := n.View().FindLiving(entity.KindEndpoint, e.ID)
	change := conflog.BatchChange{Kind: entity.KindEndpoint, ID: e.ID, Old: old, Value: []byte(raw)}
	noError(t, n.WriteBatch(t.Context(), []conflog.BatchChange{change}))
	must(n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error {
		e.Name, e.Destinations[0].URL = "renamed", "https://example.com/other"
		return nil
	}))(t)
	n.rotateToken(t, e.ID, "tok_2", n.Clock().Add(1e12))
	must(n.MoveEndpoint(t.Context(), e.ID, 3-e.Partition, n.Clock().Add(1e12)))(t)
	after := string(n.Value(n.View().FindLiving(entity.KindEndpoint, e.ID)))
	if strings.Count(after, `"of_tomorrow":1`) != 2 || !strings.Contains(after, "renamed") {
		t.Error(fmt.Sprint("unknown members were lost: ", after))
	}
}
