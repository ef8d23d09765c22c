package api

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
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
	if _, given := o.raw(name); !given {
		return
	}
	if wire.Has(f, "null") && o.isNull(name) {
		at.Set(fallback)
		return
	}
	words := f.Tag.Get("enum")
	if at.Kind() == reflect.String {
		at = at.Addr().Convert(reflect.TypeFor[*string]()).Elem() // its type may have a name
	}
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
		o.nullableText(name, f, bound("minLength"), bound("maxLength"), to)
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
		if words := f.Tag.Get("items.enum"); words != "" {
			o.eachOnce(name, *to, wire.WordsOf(words))
		}
	case *web.Time:
		o.time(name, wire.Has(f, "null"), to)
	default:
		o.inner(name, at, fallback)
	}
}

// nullableText reads a text that may be null.
func (o *object) nullableText(name string, f reflect.StructField, lo, hi int, to **string) {
	switch {
	case wire.Has(f, "only") && o.isNull(name): // empty: to be removed; nil: not sent
		*to = new(string)
	case wire.Has(f, "name"):
		text := new(string)
		if *to != nil {
			*text = **to
		}
		o.name(name, lo, text)
		*to = text
	default:
		o.textOrNull(name, lo, hi, to)
	}
}

// inner reads an object into at, a struct, or a pointer to one, which is replaced; null sets that to nil.
func (o *object) inner(name string, at, fallback reflect.Value) {
	isPointer := at.Kind() == reflect.Pointer
	if isPointer && o.isNull(name) {
		at.SetZero()
	}
	inner := o.object(name)
	if inner == nil {
		return
	}
	next := at
	if isPointer {
		next, fallback = reflect.New(at.Type().Elem()).Elem(), reflect.Zero(at.Type().Elem())
		if !at.IsNil() {
			next.Set(at.Elem())
		}
	}
	inner.decode(next.Addr().Interface(), fallback.Interface())
	inner.warnUnknown()
	if isPointer {
		at.Set(next.Addr())
	}
}

// time reads a time.
func (o *object) time(name string, orNull bool, to *web.Time) {
	raw, ok := o.rawOfKind(name, kindString)
	if !ok {
		return
	}
	text, err := web.DecodeString(raw)
	t, good := parseTime(text)
	if err != nil || !good {
		o.fail(name, "must be a time such as 2026-08-21T22:24:36Z%s", map[bool]string{true: ", or null"}[orNull])
	}
	*to = web.Time(t)
}

// eachOnce refuses texts that are none of the words or there twice.
func (o *object) eachOnce(name string, texts, words []string) {
	for i, text := range texts {
		if !slices.Contains(words, text) || slices.Contains(texts[:i], text) {
			o.fail(indexed(name, i), "must be one of %s, each once", strings.Join(words, ", "))
		}
	}
}

// texts reads an array of at most limit strings.
func (o *object) texts(name string, limit int, to *[]string) {
	elements := o.array(name, limit)
	if elements == nil {
		o.fail(name, "must be %s", kindArray)
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
