package expr

import (
	"fmt"
	"math"
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/tidwall/gjson"
)

// container is an object or an array of the event. It is read once, when an expression looks inside: a part takes 8
// bytes then, a member of an object up to 80.
type container struct {
	in     *Input
	raw    string
	isRead bool
	parts  []span          // elements of an array, values of an object
	names  map[string]int  // members of an object: index of the part; among those with one name the last one counts
	order  []string        // names, each once
	opened map[int]ref.Val // containers and long texts that were asked for
}

// span is a place in raw.
type span struct{ from, to uint32 }

// valueOf returns a JSON value of the event.
func valueOf(in *Input, r gjson.Result) ref.Val {
	switch r.Type {
	case gjson.True, gjson.False:
		return types.Bool(r.Bool())
	case gjson.Number:
		return number{types.Double(r.Num), r.Raw}
	case gjson.String:
		return types.String(r.Str)
	case gjson.JSON:
		c := container{in: in, raw: r.Raw}
		if r.IsArray() {
			return &list{c}
		}
		return &object{c}
	}
	return types.NullValue
}

// read reads the parts, unless the evaluation has read too much.
func (c *container) read() {
	if c.isRead || !c.in.spend(len(c.raw)) {
		return
	}
	c.isRead = true
	c.opened = make(map[int]ref.Val)
	isArray := c.raw[0] == '['
	if !isArray {
		c.names = make(map[string]int)
	}
	gjson.Parse(c.raw).ForEach(func(key, value gjson.Result) bool {
		if !isArray {
			if _, known := c.names[key.Str]; !known {
				c.order = append(c.order, key.Str)
			}
			c.names[key.Str] = len(c.parts)
		}
		from := value.Index
		for c.raw[from] != value.Raw[0] { // white space
			from++
		}
		c.parts = append(c.parts, span{uint32(from), uint32(from + len(value.Raw))})
		return true
	})
}

// part returns a part that read has found.
func (c *container) part(i int) ref.Val {
	if v, ok := c.opened[i]; ok {
		return v
	}
	c.in.spend(comparison)
	v := valueOf(c.in, gjson.Parse(c.raw[c.parts[i].from:c.parts[i].to]))
	switch v := v.(type) {
	case *object, *list:
		c.opened[i] = v
	case types.String:
		if len(v) > 64 {
			c.opened[i] = v
		}
	}
	return v
}

func (c *container) source() *Input { return c.in }

// Value returns the JSON text.
func (c *container) Value() any { return c.raw }

// ConvertToNative is for Go types, which no expression asks for.
func (c *container) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("JSON has no %v", t)
}

// object is a JSON object.
type object struct{ container }

func (o *object) Type() ref.Type { return types.MapType }

func (o *object) ConvertToType(t ref.Type) ref.Val { return convert(o, t) }

// convert is ConvertToType of a value that has no other form.
func convert(v ref.Val, t ref.Type) ref.Val {
	switch t {
	case v.Type():
		return v
	case types.TypeType:
		return v.Type().(*types.Type)
	}
	return types.NewErr("type conversion error from '%s' to '%s'", v.Type().TypeName(), t.TypeName())
}

// Find returns the member with this name.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	o.read()
	i, known := o.names[string(name)]
	if !ok || !known {
		return nil, false
	}
	return o.part(i), true
}

// Get returns the member with this name, or an error.
func (o *object) Get(key ref.Val) ref.Val {
	if v, ok := o.Find(key); ok {
		return v
	}
	return types.NewErr("%s: %v", noKey, key.Value())
}

func (o *object) Contains(key ref.Val) ref.Val {
	_, ok := o.Find(key)
	return types.Bool(ok)
}

func (o *object) Size() ref.Val {
	o.read()
	return types.Int(len(o.order))
}

func (o *object) Iterator() traits.Iterator {
	o.read()
	return types.NewStringList(types.DefaultTypeAdapter, o.order).Iterator()
}

func (o *object) Equal(other ref.Val) ref.Val { return types.Bool(equal(o, other)) }

// list is a JSON array.
type list struct{ container }

func (l *list) Type() ref.Type { return types.ListType }

func (l *list) ConvertToType(t ref.Type) ref.Val { return convert(l, t) }

// Get returns the element at an index, from 0.
func (l *list) Get(index ref.Val) ref.Val {
	i, ok := float(plain(index))
	if !ok || i != math.Trunc(i) {
		return types.NewErr("an index must be an integer")
	}
	l.read()
	if i < 0 || i >= float64(len(l.parts)) {
		return types.NewErr("%s: %v", noIndex, i)
	}
	return l.part(int(i))
}

func (l *list) Contains(want ref.Val) ref.Val {
	l.read()
	for i := range l.parts {
		if equal(l.part(i), want) {
			return types.True
		}
	}
	return types.False
}

func (l *list) Size() ref.Val {
	l.read()
	return types.Int(len(l.parts))
}

func (l *list) Iterator() traits.Iterator {
	l.read()
	return &elements{l: l}
}

func (l *list) Add(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.read(); !l.in.spend(comparison * len(l.parts)) {
		return types.NewErr(tooLong)
	}
	all := make([]ref.Val, len(l.parts))
	for i := range l.parts {
		all[i] = l.part(i)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, all).Add(o)
}

func (l *list) Equal(other ref.Val) ref.Val { return types.Bool(equal(l, other)) }

// elements iterates over an array.
type elements struct {
	traits.Iterator // none: what CEL asks of a value beside
	l               *list
	next            int
}

func (e *elements) HasNext() ref.Val { return types.Bool(e.next < len(e.l.parts) && e.l.in.spend(0)) }

func (e *elements) Next() ref.Val {
	e.next++
	return e.l.part(e.next - 1)
}

// equal compares two values, of which any parts may be of the event.
func equal(x, y ref.Val) bool {
	for _, v := range []ref.Val{x, y} {
		if c, ok := v.(interface{ source() *Input }); ok && !c.source().spend(comparison) {
			return false
		}
	}
	switch a := x.(type) {
	case traits.Lister:
		b, ok := y.(traits.Lister)
		if !ok || a.Size() != b.Size() {
			return false
		}
		for i, j := a.Iterator(), b.Iterator(); i.HasNext() == types.True; {
			if !equal(i.Next(), j.Next()) {
				return false
			}
		}
		return true
	case traits.Mapper:
		b, ok := y.(traits.Mapper)
		if !ok || a.Size() != b.Size() {
			return false
		}
		for i := a.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			mine, _ := a.Find(key)
			theirs, ok := b.Find(key)
			if !ok || !equal(mine, theirs) {
				return false
			}
		}
		return true
	}
	return types.Equal(plain(x), plain(y)) == types.True
}
