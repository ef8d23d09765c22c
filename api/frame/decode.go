package frame

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
)

// Decode reads the members of x that clients may set; members that the request does not have stay unchanged. x points
// to a type of package wire, whose tags say what is allowed. decode enforces the length of texts, minimum, maximum, the
// number of items, and enum. The caller checks patterns, and reads members with in:"own" and in:"update". null sets a
// member to its value in defaults, which has the type that x points to, or to zero without defaults.
func (o *Object) Decode(x any, defaults ...any) {
	v := reflect.ValueOf(x).Elem()
	fallback := reflect.Zero(v.Type())
	if len(defaults) > 0 {
		fallback = reflect.ValueOf(defaults[0])
	}
	for _, f := range wire.Members(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !wire.Has(f, ""):
			o.ReadOnly(name)
		case !wire.Has(f, "own") && !wire.Has(f, "update"):
			o.member(name, f, v.FieldByIndex(f.Index), fallback.FieldByIndex(f.Index))
		}
	}
}

// member reads one member by its tags.
func (o *Object) member(name string, f reflect.StructField, at, fallback reflect.Value) {
	bound := func(keyword string) int {
		n, _ := strconv.Atoi(f.Tag.Get(keyword))
		return n
	}
	if _, given := o.Raw(name); !given {
		return
	}
	if wire.Has(f, "null") && o.IsNull(name) {
		at.Set(fallback)
		return
	}
	if at.Kind() == reflect.Pointer {
		o.pointed(name, f, at)
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
			o.Enum(name, to, wire.WordsOf(words)...)
		case wire.Has(f, "name"):
			o.name(name, bound("minLength"), to)
		default:
			o.Text(name, bound("minLength"), cmp.Or(bound("maxLength"), MaxName), to)
		}
	case *bool:
		o.Boolean(name, to)
	case *int:
		o.Integer(name, bound("minimum"), bound("maximum"), to)
	case *float64:
		least, _ := strconv.ParseFloat(f.Tag.Get("minimum"), 64)
		most, _ := strconv.ParseFloat(f.Tag.Get("maximum"), 64)
		o.number(name, least, most, to)
	case *[]int:
		o.integers(name, bound("items.minimum"), bound("items.maximum"), bound("maxItems"), to)
		if f.Tag.Get("uniqueItems") == "true" {
			o.distinct(name, *to)
		}
	case *[]string:
		o.texts(name, bound("maxItems"), to)
		if words := f.Tag.Get("items.enum"); words != "" {
			o.eachOnce(name, *to, wire.WordsOf(words))
		}
	case *web.Time:
		o.time(name, wire.Has(f, "null"), to)
	default: // a struct
		if inner := o.Object(name); inner != nil {
			inner.Decode(to, fallback.Interface())
			inner.WarnUnknown()
		}
	}
}

// pointed reads a member into a copy of what at points to. null makes it nil, or empty if that says what to remove.
func (o *Object) pointed(name string, f reflect.StructField, at reflect.Value) {
	next := reflect.New(at.Type().Elem())
	switch isNull := o.IsNull(name); {
	case isNull && wire.Has(f, "only"):
	case isNull && next.Elem().Kind() == reflect.Struct && next.Type() != reflect.TypeFor[*web.Time]():
		next = reflect.Zero(at.Type())
	default:
		if !at.IsNil() {
			next.Elem().Set(at.Elem())
		}
		o.member(name, f, next.Elem(), reflect.Zero(next.Elem().Type()))
	}
	at.Set(next)
}

// time reads a time.
func (o *Object) time(name string, orNull bool, to *web.Time) {
	raw, ok := o.RawOfKind(name, KindString)
	if !ok {
		return
	}
	text, err := web.DecodeString(raw)
	t, good := web.ParseTime(text)
	if err != nil || !good {
		null := ""
		if orNull {
			null = ", or null"
		}
		o.Fail(name, "must be a time such as 2026-08-21T22:24:36Z%s", null)
	}
	*to = web.Time(t)
}

// distinct rejects a list that has a number twice.
func (o *Object) distinct(name string, numbers []int) {
	for i, n := range numbers {
		if slices.Contains(numbers[:i], n) {
			o.Fail(Indexed(name, i), "is there twice")
		}
	}
}

// eachOnce rejects a list that has a text twice, or one that is not among words.
func (o *Object) eachOnce(name string, texts, words []string) {
	for i, text := range texts {
		if !slices.Contains(words, text) || slices.Contains(texts[:i], text) {
			o.Fail(Indexed(name, i), "must be one of %s, each once", strings.Join(words, ", "))
		}
	}
}

// texts reads an array of at most limit strings.
func (o *Object) texts(name string, limit int, to *[]string) {
	elements := o.Array(name, limit)
	if elements == nil {
		o.Fail(name, "must be %s", KindArray)
		return
	}
	all := make([]string, len(elements))
	for i, raw := range elements {
		if KindOf(raw) != KindString {
			o.Fail(Indexed(name, i), "must be %s", KindString)
			return
		}
		if all[i], _ = TextOf(raw, 0, len(raw)); all[i] == "" && len(raw) > 2 {
			o.Fail(Indexed(name, i), "must be a JSON string")
		}
	}
	*to = all
}
