// Package scan looks for leaked keys and exposed files on one website whose host name is proven.
//
// It reads pages as a visitor does, without credentials and cookies: the start page, what the sitemap and links name,
// their scripts with the chunks and source maps that those name, and sixteen fixed paths at which files are exposed by
// mistake. It sends GET requests only, to hosts whose proof stands at that moment; each hop of a redirect is checked
// anew, and pkg/egress checks the address of each connection. A key that is found is never used.
//
// Every amount is bounded (Budget), and so are the requests to a host: four at a time, five a second, fewer after 429
// or 503. What was not looked at, and why, is in the report.
//
// One goroutine has the state of a scan, and starts fetches that return what they have found. Begin reading at
// Scanner.Run.
package scan

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/secrets"
)

// Budget bounds a scan.
type Budget struct {
	Pages, Resources int           // resources are all requests that are no pages, probes included
	Depth            int           // links from the start page
	Body, Map        int64         // bytes of a body, and of a source map, after decompression
	Total            int64         // bytes of all bodies after decompression
	Time             time.Duration // of the scan
	Request          time.Duration // of one request with its body
	Interval         time.Duration // between two requests to a host
}

// DefaultBudget returns the budget of every scan.
func DefaultBudget() Budget {
	return Budget{
		Pages: 50, Resources: 300, Depth: 3, Body: 5 << 20, Map: 20 << 20, Total: 64 << 20,
		Time: 120 * time.Second, Request: 15 * time.Second, Interval: 200 * time.Millisecond,
	}
}

const (
	// maxConcurrent bounds the requests of a scan at the same time.
	maxConcurrent = 4
	// maxSeen bounds the URLs that a scan remembers. Those after it are not looked at.
	maxSeen = 5_000
	// maxSitemaps bounds the sitemaps that an index names.
	maxSitemaps = 10
	// maxGuesses bounds the source maps that are asked for although no script names them.
	maxGuesses = 50
)

// Deps are what scans need. All are required.
type Deps struct {
	Metrics   prometheus.Registerer
	Transport http.RoundTripper // of pkg/egress; it follows no redirect and decodes nothing
	UserAgent string
	Budget    Budget
	Now       func() time.Time
}

// Scanner scans websites. Its scans share the pace of each host.
type Scanner struct {
	deps    Deps
	pace    *pace
	metrics *metrics
}

// New returns a Scanner and registers its metrics.
func New(deps Deps) *Scanner {
	return &Scanner{deps, newPace(deps.Budget.Interval, deps.Now), newMetrics(deps.Metrics)}
}

// Target is the website of a scan.
type Target struct {
	Hostname string           // with a port if it is not 443
	Rules    *secrets.Scanner // what is looked for, and masked in paths and names of the report
	// Verified reports whether a host, with a port if it is not 443, may be requested. It is asked before each request.
	Verified func(host string) bool
}

// Progress is told while a scan runs, by the goroutine that called Run.
type Progress struct {
	Pages, Resources int
	Bytes            int64
}

// Run scans a website. It calls found for each secret and each exposed file, and progress after each fetch, both in the
// goroutine of the caller. It returns an error only when ctx has ended; a scan that the website ends has Report.Error.
func (s *Scanner) Run(ctx context.Context, target Target, found func(Found), progress func(Progress)) (*Report, error) {
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	within, cancel := context.WithTimeout(ctx, s.deps.Budget.Time)
	defer cancel()
	r := &run{
		scanner: s, target: target, found: found, ctx: within, cancel: cancel, report: newReport(target.Rules),
		seen: map[string]bool{}, bodies: map[[sha256.Size]byte]bool{}, results: make(chan *result),
	}
	r.left.Store(s.deps.Budget.Total)
	r.start()
	for r.running > 0 {
		res := <-r.results
		r.running--
		r.finish(res)
		progress(Progress{r.report.Pages, r.report.Resources, r.report.Bytes})
		r.fill()
	}
	r.wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.end()
	return r.report, nil
}

// kind is what a fetch expects to find.
type kind int

const (
	page kind = iota
	script
	sourceMap
	guessedMap // a source map that no script names
	sitemap
	probed
	unknownPath // which no website has
)

// task is one thing to fetch.
type task struct {
	kind  kind
	url   *url.URL
	depth int // links from the start page
	probe *probe
}

// run is one scan. Its fields belong to the goroutine of Run, except those that fetches use: they do not change.
type run struct {
	scanner *Scanner
	target  Target
	found   func(Found)
	ctx     context.Context // of the scan, which lasts as long as the value
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	results chan *result
	left    atomic.Int64 // bytes of Budget.Total
	maps    sync.Mutex   // one source map is read at a time: it is in memory twice

	report  *Report
	queue   []task
	guesses []task // source maps that no script names: fetched when the queue is empty
	running int
	seen    map[string]bool            // URLs that were queued
	bodies  map[[sha256.Size]byte]bool // that were scanned
	queued  struct{ pages, resources, sitemaps int }
	fatal   string
}

// start queues what every scan looks at, and begins.
func (r *run) start() {
	root := &url.URL{Scheme: "https", Host: r.target.Hostname, Path: "/"}
	at := func(path string) *url.URL { return root.ResolveReference(&url.URL{Path: path}) }
	r.add(task{kind: page, url: root})
	r.add(task{kind: unknownPath, url: at("/" + strings.ToLower(rand.Text()))})
	for i := range probes {
		r.add(task{kind: probed, url: at(probes[i].path), probe: &probes[i]})
	}
	r.add(task{kind: sitemap, url: at("/sitemap.xml")})
	r.fill()
}

// add queues a task within the budgets. What is over one is skipped.
func (r *run) add(t task) {
	key := t.url.String()
	if r.seen[key] {
		return
	}
	switch b := r.scanner.deps.Budget; {
	case len(r.seen) >= maxSeen && (t.kind == page || r.queued.resources >= b.Resources):
		r.report.More++ // resources that are fetched are remembered: otherwise many links would hide scripts
		return
	case !r.target.Verified(hostOf(t.url)) && hostOf(t.url) != r.target.Hostname:
		r.report.addThirdParty(hostOf(t.url))
		return
	case t.kind == page && t.depth > b.Depth:
		r.skip(t.url, skippedDepth)
	case t.kind == page && r.queued.pages >= b.Pages:
		r.exhaust(budgetPages)
		r.skip(t.url, skippedBudget)
	case t.kind == guessedMap && r.queued.resources >= b.Resources:
	case t.kind == sitemap && r.queued.sitemaps > maxSitemaps:
		r.skip(t.url, skippedBudget)
	case t.kind != page && r.queued.resources >= b.Resources:
		r.exhaust(budgetResources)
		r.skip(t.url, skippedBudget)
	default:
		r.queue = append(r.queue, t)
		r.count(t.kind)
	}
	r.seen[key] = true
}

// count counts a task that is queued.
func (r *run) count(k kind) {
	switch k {
	case page:
		r.queued.pages++
		return
	case sitemap:
		r.queued.sitemaps++
	}
	r.queued.resources++
}

// fill starts queued fetches up to maxConcurrent.
func (r *run) fill() {
	if len(r.queue) == 0 && r.running == 0 && r.ctx.Err() == nil {
		guesses := r.guesses
		r.guesses = nil
		for _, t := range guesses {
			r.add(t)
		}
	}
	for r.running < maxConcurrent && len(r.queue) > 0 && r.ctx.Err() == nil {
		t := r.queue[0]
		r.queue = r.queue[1:]
		r.running++
		r.wg.Go(func() { r.results <- r.fetch(t) })
	}
}

// finish takes the result of a fetch over.
func (r *run) finish(res *result) {
	if res.task.kind == page {
		r.report.Pages++
	} else {
		r.report.Resources++
	}
	r.report.Bytes += res.read
	if res.overTotal {
		r.exhaust(budgetBytes)
		r.dropQueue()
	}
	switch isStart := res.task.kind == page && res.task.depth == 0 && res.task.url.Path == "/"; {
	case res.blocked:
		r.stop(errorBlockedAddress)
		return
	case isStart && res.unreachable:
		r.stop(errorUnreachable)
		return
	case res.skipped != "" && r.ctx.Err() == nil:
		if res.task.isNamed() {
			r.skip(res.task.url, res.skipped)
		}
		if !res.cut {
			return
		}
	case res.skipped != "":
		r.skipTask(&res.task)
		return
	}
	r.use(res)
	clear(res.body) // it may hold secrets
}

// use reports what a body has, unless the same bytes were reported before, and queues what it names.
func (r *run) use(res *result) {
	if res.task.kind == unknownPath {
		r.report.CatchAll = res.status == http.StatusOK
	}
	if res.status != http.StatusOK {
		return
	}
	if p := res.task.probe; p != nil && p.matches(res.body) {
		r.found(Found{Probe: p.path, Name: p.name, URL: shownURL(res.url)})
	}
	if res.task.kind == unknownPath || res.task.isGuess() && isHTML(res.body) {
		return // otherwise a key would be found at a path that differs from scan to scan
	}
	// A sitemap is only asked for pages. One that is the website's one page must not hide it.
	if sum := sha256.Sum256(res.body); res.task.kind != sitemap {
		if r.bodies[sum] {
			return
		}
		r.bodies[sum] = true
	}
	for _, f := range res.secrets {
		r.found(f)
	}
	for _, t := range res.next {
		if t.kind == guessedMap {
			r.guess(t)
		} else {
			r.add(t)
		}
	}
	r.report.More += res.dropped
	for _, skipped := range res.unfollowed {
		r.skip(skipped.url, skipped.reason)
	}
}

// guess keeps a source map that no script names for the end: it must not take the room of what a page names.
func (r *run) guess(t task) {
	if len(r.guesses) < maxGuesses {
		r.guesses = append(r.guesses, t)
	}
}

// isGuess reports whether nothing names the URL of a task.
func (t *task) isGuess() bool {
	return t.kind == probed || t.kind == guessedMap || t.kind == unknownPath
}

// isNamed reports whether the report says that a task was skipped.
func (t *task) isNamed() bool { return !t.isGuess() && (t.kind != sitemap || t.depth > 0) }

func (r *run) skip(u *url.URL, reason string) { r.report.addSkipped(u.EscapedPath(), reason) }

// exhaust names the budget that ended first.
func (r *run) exhaust(budget string) {
	if r.report.BudgetExhausted == "" {
		r.report.BudgetExhausted = budget
	}
}

// stop ends the scan because of the website.
func (r *run) stop(reason string) {
	if r.fatal == "" {
		r.fatal = reason
	}
	r.queue = nil
	r.cancel()
}

// dropQueue empties the queue and reports what was in it as not looked at.
func (r *run) dropQueue() {
	for i := range r.queue {
		r.skipTask(&r.queue[i])
	}
	r.queue, r.guesses = nil, nil
}

// skipTask reports what there was no room for. Nobody knows whether a guessed source map exists.
func (r *run) skipTask(t *task) {
	if t.kind != guessedMap {
		r.skip(t.url, skippedBudget)
	}
}

// end completes the report.
func (r *run) end() {
	r.report.Error = r.fatal
	if r.fatal == "" && errors.Is(r.ctx.Err(), context.DeadlineExceeded) {
		r.exhaust(budgetTime)
		r.dropQueue()
	}
	r.report.complete()
}

// hostOf returns the host of a URL, with its port if it is not 443.
func hostOf(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Host), ":443") }

// shownURL is a URL without its query: it may hold secrets.
func shownURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// isBlocked reports whether pkg/egress has refused an address.
func isBlocked(err error) bool {
	_, blocked := errors.AsType[*egress.AddressBlockedError](err)
	return blocked
}
