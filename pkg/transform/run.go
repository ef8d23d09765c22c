package transform

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/expr"
	"github.com/eventrelay/relay/pkg/id"
)

// run is the change of one document.
type run struct {
	in        Input
	stopped   func() error // not nil: nobody waits for the result any more
	maxOutput int
	event     *expr.Input // nil until an expression asks
	result    Result
	root      value
	visits    int
	added     int          // bytes that operations have added
	dirty     []*container // with values taken out

	// Of the operation that runs:
	index  int
	op     *operation
	trail  []place               // the way from the document to the value that is looked at
	picked map[*container][]byte // marks of pick
	steps  []Step                // of a preview; nil: nothing is recorded
}

// place is one value inside a container.
type place struct {
	in    *container
	index int
	star  bool // it was found by *
}

func (p place) at() *value { return &p.in.values[p.index] }

func (r *run) apply(p *Program) error {
	r.result.Body = r.in.Event.Body
	text, depth := string(r.in.Event.Body), MaxDepth
	if r.in.Event.Source == event.SourceAPI { // the envelope adds a level to the data, which may have MaxDepth
		depth++
	}
	if p.document {
		if f := validate(r.in.Event.Body, text, depth); f != nil {
			return f
		}
		r.root = value{text: text}
	}
	for i := range p.ops {
		r.index, r.op, r.trail = i, &p.ops[i], r.trail[:0]
		if r.steps != nil {
			r.steps = append(r.steps, Step{Index: i, Op: r.op.kind, Changed: []Change{}, Warnings: []string{}})
		}
		if err := r.runOp(); err != nil {
			return err
		}
		if r.compact(); r.result.Cancelled {
			return nil
		}
	}
	if !p.document {
		return nil
	}
	out := r.root.appendTo(make([]byte, 0, min(len(text)+r.added, r.maxOutput)), r.maxOutput, false)
	if len(out) > r.maxOutput {
		return &Failure{Op: NoOp, Message: r.tooLarge()}
	}
	r.result.Body, r.result.Changed = out, true
	return nil
}

func (r *run) runOp() error {
	switch r.op.kind {
	case Rename:
		return r.rename()
	case Pick:
		return r.pick()
	case Drop:
		return r.drop()
	case Wrap:
		return r.wrap()
	case Add:
		return r.add()
	case Set:
		return r.setValue()
	case Cancel:
		return r.cancel()
	default:
		return r.changeRequest()
	}
}

// fail returns the failure of the running operation at the value that is looked at and further steps below it.
func (r *run) fail(below []step, format string, args ...any) error {
	return &Failure{Op: r.index, Pointer: r.pointer(below), Message: fmt.Sprintf(format, args...)}
}

// pointer returns the JSON Pointer to the value that is looked at and further steps below it. One that is longer than
// MaxPointer ends with …
func (r *run) pointer(below []step) string {
	var b strings.Builder
	add := func(name string) {
		if b.Len() <= MaxPointer {
			b.WriteString("/" + escape.Replace(name[:min(len(name), 2*MaxPointer)]))
		}
	}
	for _, p := range r.trail {
		if p.in.array {
			add(strconv.Itoa(p.index))
		} else {
			add(p.in.names[p.index])
		}
	}
	for i := range below {
		add(below[i].name)
	}
	return cutTo(b.String(), MaxPointer-len("…"))
}

func (r *run) tooLarge() string {
	return "the result has more than " + strconv.Itoa(r.maxOutput) + " bytes; drop more, or add less"
}

// occupied says that a place of rename or add is taken.
const occupied = "there is a value here already; with on_conflict replace the new one takes its place"

// grow counts bytes that the operation adds.
func (r *run) grow(n int) error {
	if r.added += n; r.added > r.maxOutput {
		return r.fail(nil, "%s", r.tooLarge())
	}
	return nil
}

// checkEvery is after how many visits a run asks whether somebody still waits for its result.
const checkEvery = 1 << 16

// visit counts work.
func (r *run) visit(n int) error {
	before := r.visits
	if r.visits += n; r.visits > MaxVisits {
		return r.fail(nil, "the operations pass more than %d members and elements of this document; name fewer paths, "+
			"or do it in fewer operations", MaxVisits)
	}
	if before/checkEvery != r.visits/checkEvery {
		return r.stopped()
	}
	return nil
}

// walk calls found for each place that a path matches below v. A value that the operation has taken out before is not
// found again, and not missed either.
func (r *run) walk(v *value, path []step, found func(place) error) error {
	s := &path[0]
	c := v.open()
	if c == nil {
		return r.miss(path)
	}
	if !s.star || !c.array {
		if err := r.visit(1 + len(c.names)); err != nil {
			return err
		}
		if i := c.find(s); i >= 0 {
			return r.enter(place{c, i, s.star}, path[1:], found)
		}
		return r.miss(path)
	}
	if err := r.visit(len(c.values)); err != nil {
		return err
	}
	for i := range c.values {
		if err := r.enter(place{c, i, true}, path[1:], found); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) enter(p place, rest []step, found func(place) error) error {
	if p.at().missing() {
		return nil
	}
	if r.picked != nil {
		r.mark(p, onWay)
	}
	depth := len(r.trail)
	r.trail = append(r.trail, p)
	defer func() { r.trail = r.trail[:depth] }()
	if len(rest) == 0 {
		return found(p)
	}
	return r.walk(p.at(), rest, found)
}

// miss is called where a path leads nowhere.
func (r *run) miss(rest []step) error {
	if r.op.required {
		return r.fail(rest, "there is nothing here; correct the path, or take required out of the operation to pass "+
			"over bodies without it")
	}
	r.warnMissing(rest)
	return nil
}

// take takes a value out of its container, which compact then makes smaller.
func (r *run) take(p place) value {
	v := *p.at()
	*p.at() = value{}
	if !p.in.taken {
		p.in.taken = true
		r.dirty = append(r.dirty, p.in)
	}
	return v
}

func (r *run) compact() {
	for _, c := range r.dirty {
		c.compact()
	}
	clear(r.dirty)
	r.dirty = r.dirty[:0]
}

func (r *run) drop() error {
	for _, path := range r.op.paths {
		err := r.walk(&r.root, path, func(p place) error {
			r.remove(p.at())
			r.take(p)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) wrap() error {
	wrap := func(v *value) error {
		if err := r.grow(len(r.op.key) + len(`{:}`)); err != nil {
			return err
		}
		at := r.pointerIfRecorded()
		r.record(Change{Kind: Moved, Pointer: at + "/" + escape.Replace(r.op.name), From: at}, nil, nil)
		*v = value{box: &container{
			keys: []string{r.op.key}, names: []string{r.op.name}, values: []value{*v},
		}}
		return nil
	}
	if len(r.op.paths) == 0 {
		return wrap(&r.root)
	}
	return r.walk(&r.root, r.op.paths[0], func(p place) error { return wrap(p.at()) })
}

func (r *run) add() error {
	text := r.op.value
	if text == "" {
		text = r.sourceText()
	}
	return r.placeValue(value{text: text})
}

// placeValue places a value at the path of the operation, for each element that a * in it stands for.
func (r *run) placeValue(v value) error {
	path := r.op.paths[0]
	if r.op.prefix == 0 {
		return r.set(&r.root, path, nil, v, "")
	}
	return r.walk(&r.root, path[:r.op.prefix], func(p place) error {
		if r.op.prefix < len(path) {
			return r.set(p.at(), path[r.op.prefix:], nil, v, "")
		}
		return r.put(p, v, "")
	})
}

// sourceText is the value that add takes from the event, the endpoint or the attempt, as JSON.
func (r *run) sourceText() string {
	switch r.op.source {
	case EventID:
		return quote(r.in.Event.ID.Text(id.Event))
	case EventType:
		if r.in.Event.Type == "" {
			return "null"
		}
		return quote(r.in.Event.Type)
	case EventReceivedAt:
		return quote(r.in.Event.ReceivedAt().UTC().Format(timeFormat))
	case EndpointID:
		return quote(r.in.Event.Endpoint)
	default:
		return strconv.Itoa(r.in.Attempt)
	}
}

// timeFormat is the format of times in the API.
const timeFormat = "2006-01-02T15:04:05.000Z"

// put places a value where there is one already.
func (r *run) put(p place, v value, from string) error {
	if !r.op.replace {
		return r.fail(nil, occupied)
	}
	if err := r.grow(len(v.text)); err != nil {
		return err
	}
	old := *p.at()
	*p.at() = v
	r.record(Change{Kind: Replaced, Pointer: r.pointerIfRecorded(), From: from}, &old, &v)
	return nil
}

// set places v at a path below at, and makes what is missing on the way. indexes are what the steps * stand for, in
// their order.
func (r *run) set(at *value, path []step, indexes []int, v value, from string) error {
	depth := len(r.trail)
	defer func() { r.trail = r.trail[:depth] }()
	for n := range path {
		s := path[n]
		if s.star && len(indexes) > 0 {
			s.star = false
			if indexes[0] >= 0 {
				s.index = indexes[0]
			}
			indexes = indexes[1:]
		}
		c := at.open()
		if c == nil {
			return r.fail(nil, "is neither an object nor an array, so nothing can be placed inside; choose another "+
				"place, or replace this value with add and on_conflict replace first")
		}
		if err := r.visit(1 + len(c.names)); err != nil {
			return err
		}
		i, found, err := r.slot(c, &s, path[n:])
		if err != nil {
			return err
		}
		last := n == len(path)-1
		if !found {
			fresh := v
			if !last {
				fresh = value{box: &container{array: isElement(&path[n+1], indexes)}}
			}
			if err := r.insert(c, &s, i, fresh, last); err != nil {
				return err
			}
		}
		p := place{in: c, index: i}
		r.trail = append(r.trail, p)
		if at = p.at(); !last {
			continue
		}
		if found {
			return r.put(p, v, from)
		}
		kind := Added
		if from != "" {
			kind = Moved
		}
		r.record(Change{Kind: kind, Pointer: r.pointerIfRecorded(), From: from}, nil, &v)
	}
	return nil
}

// isElement reports whether a step that leads into something new makes an array of it. indexes are those of its * and
// of later ones.
func isElement(s *step, indexes []int) bool {
	return s.end || s.star && len(indexes) > 0 && indexes[0] >= 0
}

// slot returns the index of the member or element that a step names, and whether it is there.
func (r *run) slot(c *container, s *step, rest []step) (i int, found bool, err error) {
	switch {
	case !c.array:
		if i = c.find(s); i >= 0 && !c.values[i].missing() {
			return i, true, nil
		}
		return len(c.keys), false, nil
	case s.end:
		return len(c.values), false, nil
	case s.index < 0:
		return 0, false, r.fail(rest[:1], "the place is in an array, whose elements have no names; write the index "+
			"of one, * for each, or - for the place after the last")
	case s.index < len(c.values):
		return s.index, !c.values[s.index].missing(), nil
	case s.index > len(c.values) && rest[0].index >= 0:
		return 0, false, r.fail(rest[:1], "the array has only %d elements; write - for the place after the last",
			len(c.values))
	}
	return s.index, false, nil
}

// insert makes a new member or element of c, at an index that slot has returned.
func (r *run) insert(c *container, s *step, i int, v value, last bool) error {
	n := len(s.key) + len(`:{},`)
	if last {
		n += len(v.text)
	}
	if c.array {
		n += len("null,") * max(i-len(c.values), 0)
	}
	if err := r.grow(n); err != nil {
		return err
	}
	if c.array && i < len(c.values) { // it was taken out
		c.values[i] = v
		return nil
	}
	if !c.array {
		c.addName(s.key, s.name)
	}
	for len(c.values) < i { // elements that have nothing to move
		c.values = append(c.values, value{text: "null"})
	}
	c.values = append(c.values, v)
	return nil
}

func (r *run) rename() error {
	from, to := r.op.from, r.op.to
	last := len(from) - 1
	if samePath(from[:last], to[:len(to)-1]) && !from[last].star && from[last].index < 0 && to[last].index < 0 {
		return r.walk(&r.root, from, func(p place) error { return r.renameMember(p, &to[last]) })
	}
	return r.move(from, to)
}

// renameMember gives a member another name. It keeps its place among the others.
func (r *run) renameMember(p place, to *step) error {
	before := r.pointerIfRecorded()
	var old *value
	if i := p.in.find(to); i >= 0 && !p.in.values[i].missing() {
		if !r.op.replace {
			r.trail[len(r.trail)-1].index = i
			return r.fail(nil, occupied)
		}
		v := r.take(place{in: p.in, index: i})
		old = &v
	}
	if err := r.grow(len(to.key)); err != nil {
		return err
	}
	p.in.keys[p.index], p.in.names[p.index] = to.key, to.name
	c := Change{Kind: Moved, Pointer: r.pointerIfRecorded(), From: before}
	if old == nil {
		r.record(c, nil, nil)
		return nil
	}
	c.Kind = Replaced
	r.record(c, old, p.at())
	return nil
}

// moved is a value on its way to another place.
type moved struct {
	v       value
	indexes []int // what each * of the path stood for; -1 for a member *
	from    string
}

// move takes all values out first, so that a target may lie where a value was.
func (r *run) move(from, to []step) error {
	var all []moved
	err := r.walk(&r.root, from, func(p place) error {
		m := moved{from: r.pointerIfRecorded()}
		for _, q := range r.trail {
			if !q.star {
				continue
			}
			i := q.index
			if !q.in.array {
				i = -1
			}
			m.indexes = append(m.indexes, i)
		}
		m.v = r.take(p)
		all = append(all, m)
		return nil
	})
	if err != nil {
		return err
	}
	r.compact()
	for i := range all {
		if err := r.set(&r.root, to, all[i].indexes, all[i].v, all[i].from); err != nil {
			return err
		}
	}
	return nil
}
