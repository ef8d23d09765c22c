package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// isSet reports whether a value is known and not null.
func isSet(v tftypes.Value) bool { return v.Type() != nil && v.IsKnown() && !v.IsNull() }

// member returns a member of an object; null if the object is not set.
func member(v tftypes.Value, name string, kind tftypes.Type) tftypes.Value {
	var members map[string]tftypes.Value
	switch {
	case v.Type() != nil && !v.IsKnown():
		return tftypes.NewValue(kind, tftypes.UnknownValue)
	case !isSet(v) || v.As(&members) != nil:
		return tftypes.NewValue(kind, nil)
	}
	return members[name]
}

// bodyOf returns the members of a request: those that are known and, with state, have changed. Members of an object are
// merged with those that are there.
func bodyOf(all []attribute, plan, state tftypes.Value) (object, error) {
	body := object{}
	for _, a := range all {
		if a.ReadOnly {
			continue
		}
		kind := a.schema().GetType().TerraformType(context.Background())
		next, now := member(plan, a.Name, kind), member(state, a.Name, kind)
		if !next.IsFullyKnown() && a.Type != "object" || !next.IsKnown() || next.Equal(now) ||
			next.IsNull() && (now.IsNull() || !a.Nullable) {
			continue
		}
		value, err := a.value(next, now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		if members, ok := value.(object); ok && len(members) == 0 && isSet(now) && a.Type == "object" {
			continue
		}
		body[a.key()] = value
	}
	return body, nil
}

// value returns the JSON of a value.
func (a attribute) value(v, now tftypes.Value) (any, error) {
	if v.IsNull() {
		return nil, nil
	}
	switch a.Type {
	case "object":
		return bodyOf(a.Members, v, now)
	case "json":
		var text string
		if err := v.As(&text); err != nil {
			return nil, err
		}
		return json.RawMessage(text), nil
	}
	return plain(v)
}

// plain returns the JSON of a value other than an object.
func plain(v tftypes.Value) (any, error) {
	var err error
	switch kind := v.Type(); {
	case v.IsNull():
		return nil, nil
	case kind.Is(tftypes.String):
		var x string
		err = v.As(&x)
		return x, err
	case kind.Is(tftypes.Bool):
		var x bool
		err = v.As(&x)
		return x, err
	case kind.Is(tftypes.Number):
		var x big.Float
		err = v.As(&x)
		return json.Number(x.Text('f', -1)), err
	case kind.Is(tftypes.Map{}):
		members, out := map[string]tftypes.Value{}, object{}
		err = v.As(&members)
		for name, x := range members {
			if out[name], err = plain(x); err != nil {
				return nil, err
			}
		}
		return out, err
	}
	var elements []tftypes.Value
	if err = v.As(&elements); err != nil {
		return nil, err
	}
	out := make([]any, len(elements))
	for i, x := range elements {
		if out[i], err = plain(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stateOf returns the state after an answer. After a change the known values of the plan stay as they are, which
// Terraform demands; a read keeps what the answer only masks, and text that says the same.
func stateOf(
	all []attribute, kind tftypes.Type, answer object, before tftypes.Value, changed bool,
) (tftypes.Value, error) {
	members := map[string]tftypes.Value{}
	for name, of := range kind.(tftypes.Object).AttributeTypes {
		i := slices.IndexFunc(all, func(a attribute) bool { return a.Name == name })
		v, err := all[i].read(of, answer[all[i].key()], member(before, name, of), changed)
		if err != nil {
			return v, fmt.Errorf("%s: %w", name, err)
		}
		members[name] = v
	}
	return tftypes.NewValue(kind, members), nil
}

// mask begins what the service shows of a secret; its last letters may follow.
const mask = "****"

func (a attribute) read(kind tftypes.Type, answer any, before tftypes.Value, changed bool) (tftypes.Value, error) {
	none := tftypes.NewValue(kind, nil)
	switch x, isText := answer.(string); {
	case changed && before.IsKnown() && (a.Type != "object" || before.IsNull()):
		return before, nil
	case a.Type == "object":
		inner, ok := answer.(object)
		if !ok {
			return none, nil
		}
		return stateOf(a.Members, kind, inner, before, changed)
	case a.Sensitive && answer == nil && isSet(before):
		return before, nil
	case answer == nil:
		return none, nil
	case isText && strings.Contains(x, mask):
		if masks(x, before) {
			return before, nil
		}
		return none, nil
	}
	if x, isMap := answer.(object); isMap && a.Type == "map" {
		answer = unmasked(x, before)
	}
	if isSet(before) {
		was, err := a.value(before, none)
		if err == nil && same(was, answer) {
			return before, nil
		}
	}
	if a.Type == "json" {
		text, err := json.Marshal(answer)
		return tftypes.NewValue(kind, string(text)), err
	}
	return valueOf(kind, answer)
}

// unmasked returns a map with what is known of its values that are masked.
func unmasked(answer object, before tftypes.Value) object {
	known, out := map[string]tftypes.Value{}, object{}
	if isSet(before) {
		_ = before.As(&known)
	}
	for name, x := range answer {
		out[name] = x
		if text, ok := x.(string); ok && strings.Contains(text, mask) && masks(text, known[name]) {
			out[name], _ = plain(known[name])
		}
	}
	return out
}

// masks reports whether a text of the service may stand for a value.
func masks(text string, of tftypes.Value) bool {
	var known string
	return isSet(of) && of.As(&known) == nil && strings.HasSuffix(known, text[strings.LastIndex(text, "*")+1:])
}

// same reports whether two values are the same JSON, but for members that are null.
func same(a, b any) bool { return reflect.DeepEqual(normal(a), normal(b)) }

func normal(v any) (out any) {
	text, err := json.Marshal(v)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil
	}
	return withoutNull(out)
}

func withoutNull(v any) any {
	switch x := v.(type) {
	case object:
		maps.DeleteFunc(x, func(_ string, member any) bool { return withoutNull(member) == nil })
	case []any:
		for _, element := range x {
			withoutNull(element)
		}
	}
	return v
}

// valueOf returns the value of JSON other than an object of attributes.
func valueOf(kind tftypes.Type, answer any) (tftypes.Value, error) {
	switch x := answer.(type) {
	case json.Number:
		f, _, err := big.ParseFloat(x.String(), 10, 512, big.ToNearestEven)
		return tftypes.NewValue(kind, f), err
	case []any:
		elements := []tftypes.Value{}
		for _, element := range x {
			v, err := valueOf(kind.(tftypes.List).ElementType, element)
			if err != nil {
				return v, err
			}
			elements = append(elements, v)
		}
		return tftypes.NewValue(kind, elements), nil
	case object:
		members := map[string]tftypes.Value{}
		for name, element := range x {
			v, err := valueOf(tftypes.String, element)
			if err != nil {
				return v, err
			}
			members[name] = v
		}
		return tftypes.NewValue(kind, members), nil
	}
	if err := tftypes.ValidateValue(kind, answer); err != nil {
		return tftypes.NewValue(kind, nil), err
	}
	return tftypes.NewValue(kind, answer), nil
}
