package expr

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// JSON returns the value as JSON. Values of the event keep their text; the members of an object that the expression
// makes are in the order of their names. A timestamp is RFC 3339, a duration a text such as 1.5s, bytes are base64.
func (p *Program) JSON(in *Input) ([]byte, error) {
	value, err := p.evaluate(in)
	if err != nil {
		return nil, err
	}
	text, err := appendJSON(nil, value, 0)
	if err != nil {
		return nil, &Error{1, 1, err.Error()}
	}
	return text, nil
}

// Plain returns a string, a number or a bool as a header or a path has it. ok is false for null.
func (p *Program) Plain(in *Input) (text string, ok bool, err error) {
	value, err := p.evaluate(in)
	if err != nil {
		return "", false, err
	}
	if v, isOptional := value.(*types.Optional); isOptional && v.HasValue() {
		value = v.GetValue()
	}
	switch v := value.(type) {
	case types.String:
		return string(v), true, nil
	case number, types.Bool, types.Int, types.Uint, types.Double:
		text, err := appendJSON(nil, value, 0)
		return string(text), err == nil, err
	case types.Null, *types.Optional:
		return "", false, nil
	}
	return "", false, &Error{1, 1, fmt.Sprintf("is %s, but must be string, a number, bool or null",
		plain(value).Type().TypeName())}
}

func appendJSON(to []byte, v ref.Val, depth int) ([]byte, error) {
	if depth > maxDepth || len(to) > MaxResult {
		return nil, fmt.Errorf("the value is too large")
	}
	switch v := v.(type) {
	case number:
		return append(to, v.text...), nil
	case *object:
		return append(to, v.raw...), nil
	case *list:
		return append(to, v.raw...), nil
	case types.Null:
		return append(to, "null"...), nil
	case types.Bool:
		return strconv.AppendBool(to, bool(v)), nil
	case types.Int:
		return strconv.AppendInt(to, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(to, uint64(v), 10), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("the value is %v, which JSON does not have", float64(v))
		}
		return marshal(to, float64(v))
	case types.String:
		return marshal(to, string(v))
	case types.Bytes:
		return marshal(to, []byte(v))
	case types.Timestamp:
		return marshal(to, v.Format(time.RFC3339Nano))
	case types.Duration:
		return marshal(to, strconv.FormatFloat(v.Seconds(), 'f', -1, 64)+"s")
	case *types.Optional:
		if v.HasValue() {
			return appendJSON(to, v.GetValue(), depth)
		}
		return append(to, "null"...), nil
	case traits.Mapper:
		return appendMap(to, v, depth)
	case traits.Lister:
		return appendList(to, v, depth)
	}
	return nil, fmt.Errorf("the value is a %s, which JSON does not have", v.Type().TypeName())
}

func appendList(to []byte, l traits.Lister, depth int) (_ []byte, err error) {
	to = append(to, '[')
	for it, n := l.Iterator(), 0; it.HasNext() == types.True; n++ {
		if n > 0 {
			to = append(to, ',')
		}
		if to, err = appendJSON(to, it.Next(), depth+1); err != nil {
			return nil, err
		}
	}
	return append(to, ']'), nil
}

func appendMap(to []byte, m traits.Mapper, depth int) (_ []byte, err error) {
	var names []string
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a key of the map is a %s, but must be a string", key.Type().TypeName())
		}
		names = append(names, string(name))
	}
	slices.Sort(names)
	to = append(to, '{')
	for i, name := range names {
		if i > 0 {
			to = append(to, ',')
		}
		if to, err = marshal(to, name); err != nil {
			return nil, err
		}
		if to, err = appendJSON(append(to, ':'), m.Get(types.String(name)), depth+1); err != nil {
			return nil, err
		}
	}
	return append(to, '}'), nil
}

func marshal(to []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(to)
	e := stdjson.NewEncoder(b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
