package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The schema of each member says whether it may be null as its tags do, whatever others of its type say.
func TestSchemasAllowNullWhereTagsDo(t *testing.T) {
	all, checked := must.Get(Schemas(nil))(t), 0
	for suffix, types := range map[string][]any{"": answers, input: requests, update: requests} {
		seen := map[reflect.Type]bool{}
		var walk func(typ reflect.Type)
		walk = func(typ reflect.Type) {
			for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, typ.Kind()) {
				typ = typ.Elem()
			}
			if typ.Kind() != reflect.Struct || seen[typ] {
				return
			}
			seen[typ] = true
			g := generator{suffix: suffix, types: map[string]reflect.Type{}}
			name := g.name(typ)
			var schema struct{ Properties map[string]json.RawMessage }
			if all[name] != nil {
				must.Do(t, json.Unmarshal(all[name], &schema))
			}
			for _, f := range Members(typ) {
				member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
				isPointer := f.Type.Kind() == reflect.Pointer
				want := f.Tag.Get("nullable") == "true" || isPointer && options != "omitempty"
				if g.input() {
					want = Has(f, "null") || Has(f, "only") && isPointer
				}
				if text := schema.Properties[member]; text != nil {
					checked++
					is.Equal(t, allowsNull(t, text), want, "%s.%s may be null:", name, member)
				}
				walk(f.Type)
			}
		}
		for _, x := range types {
			walk(reflect.TypeOf(x))
		}
	}
	if checked < 500 {
		t.Errorf("%d members were checked", checked)
	}
}

func allowsNull(t *testing.T, text json.RawMessage) bool {
	t.Helper()
	var s struct {
		Type  any
		OneOf []struct{ Type any }
	}
	must.Do(t, json.Unmarshal(text, &s))
	types, _ := s.Type.([]any)
	return slices.Contains(types, any("null")) ||
		slices.ContainsFunc(s.OneOf, func(one struct{ Type any }) bool { return one.Type == "null" })
}
