package endpoints

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of a destination's filter: number of types, number of paths in the body, bytes of a value as JSON.
const (
	maxFilterTypes = 50
	maxFilterBody  = 20
	maxFilterText  = 500
)

// validTypeFilter reports whether a text is an event type or a prefix of types: order.paid, order.*. Other stars are
// refused: a lone one means the same as no types, and others match nothing.
func validTypeFilter(s string) bool {
	prefix, isPrefix := strings.CutSuffix(s, ".*")
	return event.ValidType(s) && !strings.Contains(prefix, "*") && (prefix != "" || !isPrefix)
}

func (in *endpointInput) filter(o *frame.Object, d *config.Destination) {
	const name = "filter"
	if o.IsNull(name) {
		d.Filter = nil
	}
	f := o.Object(name)
	if f == nil {
		return
	}
	var next filter.Filter
	if d.Filter != nil {
		next = *d.Filter
	}
	if _, ok := f.Raw("types"); ok {
		elements := f.Array("types", maxFilterTypes)
		next.Types = make([]string, 0, len(elements))
		for i, raw := range elements {
			var t string
			if frame.KindOf(raw) == frame.KindString {
				t, _ = web.DecodeString(raw)
			}
			if !validTypeFilter(t) {
				f.Fail(frame.Indexed("types", i), `must be an event type such as "order.paid", or a prefix such as "order.*"; `+
					`leave types out to deliver all types`)
				return
			}
			next.Types = append(next.Types, t)
		}
	}
	in.filterBody(f, &next)
	f.WarnUnknown()
	d.Filter = &next
	if len(next.Types) == 0 && len(next.Body) == 0 {
		d.Filter = nil
	}
}

// filterBody replaces the whole body filter. It cannot merge path by path: null is a value to compare with, not a
// removal.
func (in *endpointInput) filterBody(f *frame.Object, next *filter.Filter) {
	if f.IsNull("body") {
		next.Body = nil
	}
	b := f.Object("body")
	if b == nil {
		return
	}
	next.Body = make(map[string]any, len(b.Members))
	if len(b.Members) > maxFilterBody {
		f.Fail("body", "must have at most %d members", maxFilterBody)
	}
	warned := false // one warning is enough to make somebody look
	for _, m := range b.Members {
		if _, err := event.ParseBodyPath(m.Name); err != nil {
			b.Fail(m.Name, "is not a path in a JSON body: %v", err)
			return
		}
		v, ok := scalar(m.Value)
		if !ok {
			b.Fail(m.Name, "must be a string of at most %d bytes, a number below 2^53, true, false or null", maxFilterText)
			return
		}
		next.Body[m.Name] = v
		if doubt := event.PathDoubt(m.Name); doubt != "" && !warned {
			b.In.Warn(b.Param(m.Name), doubt)
			warned = true
		}
	}
}

// scalar decodes a value to compare with. It refuses numbers from 2^53 on: float64 cannot tell such integers apart.
func scalar(raw []byte) (any, bool) {
	var v any
	if len(raw) > maxFilterText || json.Unmarshal(raw, &v) != nil {
		return nil, false
	}
	switch x := v.(type) {
	case map[string]any, []any:
		return nil, false
	case float64:
		return x, math.Abs(x) < 1<<53
	}
	return v, true
}
