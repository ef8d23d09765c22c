package secrets

import (
	"slices"
	"sync"
)

// maxScanners is how many customers' scanners are in memory, at about 140 KiB each.
const maxScanners = 64

// Scanners has a scanner for each customer: a common one, with the rules of the customer. It compiles a set of rules
// once for each revision of it, not for each text. It is safe for concurrent use.
type Scanners struct {
	base *Scanner

	mu       sync.Mutex
	compiled map[string]*compiledRules // by customer, at most maxScanners
	calls    uint64
}

type compiledRules struct {
	revision int64
	scanner  *Scanner
	usedAt   uint64 // in calls
}

// NewScanners returns the scanners that extend base.
func NewScanners(base *Scanner) *Scanners {
	return &Scanners{base: base, compiled: map[string]*compiledRules{}}
}

// Base returns the scanner of customers without rules.
func (c *Scanners) Base() *Scanner { return c.base }

// For returns the scanner of a customer. revision changes whenever the rules do. Rules that are not valid in this
// version of the program, which a newer one may have written, are left out.
func (c *Scanners) For(customer string, revision int64, rules []Custom) *Scanner {
	if len(rules) == 0 {
		return c.base
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	known := c.compiled[customer]
	if known == nil {
		c.evict()
		known = &compiledRules{}
		c.compiled[customer] = known
	}
	if known.scanner == nil || known.revision != revision {
		known.revision, known.scanner = revision, c.compile(rules)
	}
	known.usedAt = c.calls
	return known.scanner
}

// evict makes room for one more scanner: the one goes that was not used for the longest time.
func (c *Scanners) evict() {
	if len(c.compiled) < maxScanners {
		return
	}
	oldest := ""
	for customer, x := range c.compiled {
		if oldest == "" || x.usedAt < c.compiled[oldest].usedAt {
			oldest = customer
		}
	}
	delete(c.compiled, oldest)
}

func (c *Scanners) compile(rules []Custom) *Scanner {
	valid := slices.DeleteFunc(slices.Clone(rules), func(r Custom) bool {
		_, problem := r.problem()
		return problem != ""
	})
	scanner, err := c.base.With(valid)
	if err != nil {
		return c.base
	}
	return scanner
}
