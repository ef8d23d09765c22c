package secrets

import (
	"errors"
	"slices"
)

// pattern is one prefix of a rule.
type pattern struct {
	rule *Rule
	text string
}

// head returns the characters that the automaton reads.
func (p *pattern) head() string { return p.text[:min(len(p.text), maxDepth)] }

// automaton finds all patterns in one pass (Aho and Corasick, 1975), as a dense table: one lookup for each byte.
//
// Letters are folded, '-', '_' and '.' are one class, and of a prefix only its first characters are in the table:
// matchers compare all of it afterwards. That keeps the table small, and so in the cache of a core.
type automaton struct {
	class [256]uint8 // of each byte; 0 is of bytes in no pattern
	// next is at state|class. A state is a multiple of 64, so that no index needs a multiplication or a bounds check.
	table [1 << 16]uint16
	// accepting is the first state at which a pattern ends; those at which none does come before it.
	accepting uint16
	patterns  [][]pattern // by state, from accepting on
}

const (
	// maxClasses is a state's stride in the table.
	maxClasses = 64
	maxStates  = 1 << 16 / maxClasses
	// maxDepth is how many characters of a prefix the automaton reads.
	maxDepth = 6
)

// node is a state while the automaton is built: a place in the tree of the patterns.
type node struct {
	next     [maxClasses]int // 0 is the root: none
	patterns []pattern
	number   uint16
}

func newAutomaton(patterns []pattern) (*automaton, error) {
	a := &automaton{}
	if err := a.classify(patterns); err != nil {
		return nil, err
	}
	nodes := make([]node, 1, maxStates)
	for _, p := range patterns {
		at := 0
		for _, c := range []byte(p.head()) {
			class := a.class[c]
			if nodes[at].next[class] == 0 {
				nodes[at].next[class] = len(nodes)
				nodes = append(nodes, node{})
			}
			at = nodes[at].next[class]
		}
		nodes[at].patterns = append(nodes[at].patterns, p)
	}
	if len(nodes) > maxStates {
		return nil, errors.New("the prefixes of the rules need too many states")
	}
	completeNodes(nodes)
	a.fill(nodes)
	return a, nil
}

// classify gives each byte of the patterns a class.
func (a *automaton) classify(patterns []pattern) error {
	classes := uint8(0)
	for _, p := range patterns {
		for _, c := range []byte(p.head()) {
			same := []byte{c}
			switch {
			case isLetter(c):
				same = []byte{c | ' ', c &^ ' '}
			case isSeparator(c):
				same = []byte("-_.")
			}
			if a.class[c] != 0 {
				continue
			}
			if classes++; classes == maxClasses {
				return errors.New("the prefixes of the rules have too many different characters")
			}
			for _, c := range same {
				a.class[c] = classes
			}
		}
	}
	return nil
}

// completeNodes gives each node a successor for every class: that of its longest suffix that is a node too, whose
// patterns end here as well.
func completeNodes(nodes []node) {
	suffix := make([]int, len(nodes))
	queue := make([]int, 0, len(nodes))
	for _, child := range nodes[0].next {
		if child != 0 {
			queue = append(queue, child)
		}
	}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		n := &nodes[at]
		n.patterns = append(n.patterns, nodes[suffix[at]].patterns...)
		for class, child := range n.next {
			if child == 0 {
				n.next[class] = nodes[suffix[at]].next[class]
				continue
			}
			suffix[child] = nodes[suffix[at]].next[class]
			queue = append(queue, child)
		}
	}
}

// fill numbers the nodes, those with patterns last, and writes the table.
func (a *automaton) fill(nodes []node) {
	number := uint16(0)
	for i := range nodes {
		if len(nodes[i].patterns) == 0 {
			nodes[i].number = number
			number += maxClasses
		}
	}
	a.accepting = number
	for i := range nodes {
		if len(nodes[i].patterns) > 0 {
			nodes[i].number = number
			number += maxClasses
			a.patterns = append(a.patterns, slices.Clip(nodes[i].patterns))
		}
	}
	for i := range nodes {
		for class, child := range nodes[i].next {
			a.table[nodes[i].number|uint16(class)] = nodes[child].number
		}
	}
}

// next reads b from a position until a pattern ends or b does, and reports whether a pattern ends. It returns the
// position after the last byte that it has read, and the state there.
func (a *automaton) next(b []byte, i int, state uint16) (int, uint16, bool) {
	for ; i < len(b); i++ {
		if state = a.table[state|uint16(a.class[b[i]])]; state >= a.accepting {
			return i + 1, state, true
		}
	}
	return i, state, false
}

// patternsAt returns the patterns that end at an accepting state.
func (a *automaton) patternsAt(state uint16) []pattern {
	return a.patterns[(state-a.accepting)/maxClasses]
}
