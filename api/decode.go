package api

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
)

// decode reads the members of x that clients may set, and leaves those that the request does not have as they are. x
// points to a type of package wire, whose tags say what is allowed. It enforces
// the length of texts, minimum, maximum, the number of items, and enum; a pattern is left to the caller, and so are
// members with in:"own" and in:"update". null sets a member to that of defaults, a value of the type of x; without
// defaults to zero.
func (o *object) decode(x any, defaults ...any) {
	v := reflect.ValueOf(x).Elem()
	fallback := reflect.Zero(v.Type())
	if len(defaults) > 0 {
		fallback = reflect.ValueOf(defaults[0])
	}
	for _, f := range wire.Members(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !wire.Has(f, ""):
			o.readOnly(name)
		case !wire.Has(f, "own") && !wire.Has(f, "update"):
			o.member(name, f, v.FieldByIndex(f.Index), fallback.FieldByIndex(f.Index))
		}
	}
}

// member reads one member by its tags.
func (o *object) member(name string, f reflect.StructField, at, fallback reflect.Value) {
	bound := func(keyword string) int {
		n, _ := strconv.Atoi(f.Tag.Get(keyword))
		return n
	}
	if wire.Has(f, "null") && o.isNull(name) {
		at.Set(fallback)
		return
	}
	if at.Kind() == reflect.Struct {
		if inner := o.object(name); inner != nil {
			inner.decode(at.Addr().Interface(), fallback.Interface())
			inner.warnUnknown()
		}
		return
	}
	words := f.Tag.Get("enum")
	switch to := at.Addr().Interface().(type) {
	case *string:
		switch {
		case words != "":
			o.enum(name, to, wire.WordsOf(words)...)
		case wire.Has(f, "name"):
			o.name(name, bound("minLength"), to)
		default:
			o.text(name, bound("minLength"), cmp.Or(bound("maxLength"), maxName), to)
		}
	case **string:
		if wire.Has(f, "only") && o.isNull(name) { // empty: to be removed; nil: not sent
			*to = new(string)
			return
		}
		o.textOrNull(name, bound("minLength"), bound("maxLength"), to)
	case *bool:
		o.boolean(name, to)
	case *int:
		o.integer(name, bound("minimum"), bound("maximum"), to)
	case **int:
		o.integerOrNull(name, bound("minimum"), bound("maximum"), to)
	case *float64:
		least, _ := strconv.ParseFloat(f.Tag.Get("minimum"), 64)
		most, _ := strconv.ParseFloat(f.Tag.Get("maximum"), 64)
		o.number(name, least, most, to)
	case *[]int:
		o.integers(name, bound("items.minimum"), bound("items.maximum"), bound("maxItems"), to)
	case *[]string:
		o.texts(name, bound("maxItems"), to)
	default:
		panic("api: no member of a request has the type of " + name)
	}
}

// texts reads an array of at most limit strings.
func (o *object) texts(name string, limit int, to *[]string) {
	elements := o.array(name, limit)
	if elements == nil {
		return
	}
	all := make([]string, len(elements))
	for i, raw := range elements {
		if kindOf(raw) != kindString {
			o.fail(indexed(name, i), "must be %s", kindString)
			return
		}
		if all[i], _ = textOf(raw, 0, len(raw)); all[i] == "" && len(raw) > 2 {
			o.fail(indexed(name, i), "must be a JSON string")
		}
	}
	*to = all
}
