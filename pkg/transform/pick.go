package transform

// Marks of pick.
const (
	onWay = 1 + iota // a picked path leads through it
	whole            // it is picked
)

// mark marks a value for pick.
func (r *run) mark(p place, as byte) {
	marks := r.picked[p.in]
	if marks == nil {
		marks = make([]byte, len(p.in.values))
		r.picked[p.in] = marks
	}
	marks[p.index] = max(marks[p.index], as)
}

// pick marks what the paths match, then removes everything else.
func (r *run) pick() error {
	r.picked = map[*container][]byte{}
	defer func() { r.picked = nil }()
	for _, path := range r.op.paths {
		err := r.walk(&r.root, path, func(p place) error {
			r.mark(p, whole)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if r.root.open() == nil {
		r.remove(&r.root)
		r.root = value{text: "null"}
		return nil
	}
	r.keepPicked(r.root.box)
	return nil
}

// keepPicked removes what is not marked in a container. Objects and arrays on the way to a picked place stay, empty if
// it is not there. In an array positions hold: what is not picked before a picked element becomes null.
func (r *run) keepPicked(c *container) {
	marks := r.picked[c]
	last := -1
	for i, m := range marks {
		if m != 0 {
			last = i
		}
	}
	for i := range c.values {
		p := place{in: c, index: i}
		r.trail = append(r.trail, p)
		mark := byte(0)
		if marks != nil {
			mark = marks[i]
		}
		switch inner := p.at().openIf(mark == onWay); {
		case mark == whole:
		case inner != nil:
			r.keepPicked(inner)
		case c.array && i <= last:
			r.remove(p.at())
			*p.at() = value{text: "null"}
		default:
			r.remove(p.at())
			r.take(p)
		}
		r.trail = r.trail[:len(r.trail)-1]
	}
}

// openIf is open, or nil without yes.
func (v *value) openIf(yes bool) *container {
	if !yes {
		return nil
	}
	return v.open()
}

// remove records that pick removes a value.
func (r *run) remove(v *value) {
	r.record(Change{Kind: Removed, Pointer: r.pointerIfRecorded()}, v, nil)
}
