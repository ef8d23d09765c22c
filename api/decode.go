package api

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
)

// decode reads the members of x that clients may set, and leaves those that the request does not have as they are. x
// points to a type of package wire, whose tags say what is allowed. Members with in:"own" and in:"update"
// are left to the caller.
func (o *object) decode(x any) {
	v := reflect.ValueOf(x).Elem()
	for _, f := range wire.Members(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if in, written := f.Tag.Lookup("in"); !written {
			o.readOnly(name)
		} else if in != "own" && in != "update" {
			o.member(name, in, f.Tag, v.FieldByIndex(f.Index).Addr().Interface())
		}
	}
}

// member reads one member by its tags.
func (o *object) member(name, in string, tag reflect.StructTag, to any) {
	bound := func(keyword string) int {
		n, _ := strconv.Atoi(tag.Get(keyword))
		return n
	}
	if in == "null" && o.isNull(name) {
		reflect.ValueOf(to).Elem().SetZero()
		return
	}
	words := tag.Get("enum")
	switch to := to.(type) {
	case *string:
		switch {
		case words != "":
			o.enum(name, to, strings.Split(words, ",")...)
		case in == "name":
			o.name(name, bound("minLength"), to)
		default:
			o.text(name, bound("minLength"), bound("maxLength"), to)
		}
	case **string:
		if in == "only" && o.isNull(name) {
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
