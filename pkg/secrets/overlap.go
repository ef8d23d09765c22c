package secrets

// maxPending is how many matches can wait at the same time. They do not overlap, and all but one begin within the
// longest prefix and the longest way from a name to its value: fewer than this.
const maxPending = 32

// pending are matches that a later one may still beat, in order of position and without overlaps.
type pending struct {
	list  [maxPending]Match
	n     int
	known runs
}

// hasLonger reports whether a match of a rule waits in whose only run of characters a prefix of the rule ends: what
// begins there ends where that match does, and is shorter.
func (p *pending) hasLonger(r *Rule, end int) bool {
	if r.Kind != KindToken || len(r.Then) > 0 || r.Right == boundaryAny || r.Lead.set != nil {
		return false
	}
	for i := range p.list[:p.n] {
		if m := &p.list[i]; m.Rule == r && m.Start < end-maxDepth && m.End > end {
			return true
		}
	}
	return false
}

// add adds a match unless a better one overlaps it, and removes those that it beats.
func (p *pending) add(m Match) {
	from := 0
	for from < p.n && p.list[from].End <= m.Start {
		from++
	}
	to := from
	for ; to < p.n && p.list[to].Start < m.End; to++ {
		if !m.beats(&p.list[to]) {
			return
		}
	}
	if from == to && p.n == maxPending {
		return
	}
	n := copy(p.list[from+1:], p.list[to:p.n])
	p.list[from] = m
	p.n = from + 1 + n
}

// beats reports whether m is the better of two matches that overlap.
func (m *Match) beats(other *Match) bool {
	switch length := m.End - m.Start; {
	case m.Rule.Generic != other.Rule.Generic:
		return other.Rule.Generic
	case m.Rule.custom != other.Rule.custom:
		return other.Rule.custom
	case length != other.End-other.Start:
		return length > other.End-other.Start
	default:
		return m.Rule.order < other.Rule.order
	}
}

// flush emits the matches that end at a position at the latest. It returns false if emit did.
func (p *pending) flush(end int, emit func(Match) bool) bool {
	n := 0
	for ; n < p.n && p.list[n].End <= end; n++ {
		if !emit(p.list[n]) {
			return false
		}
	}
	p.n = copy(p.list[:], p.list[n:p.n])
	return true
}
