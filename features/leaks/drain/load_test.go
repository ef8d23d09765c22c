package drain

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// countedTokens has no limit and counts what is taken of the drains' bytes.
type countedTokens struct {
	unlimited
	bytes int
}

func (c *countedTokens) TakeSharedTokens(class, _ string, n int, _ float64) time.Duration {
	if class == limitBytes {
		c.bytes += n
	}
	return 0
}

// 5 KB of gzip with 80,000 secrets read a bounded number of lines and compute a bounded number of hashes, and take
// tokens for each secret. The number of secrets stays exact.
func TestManyMatchesAreBoundedWork(t *testing.T) {
	const n = 80_000
	line := `{"app":"web","msg":"` + leakedKey(1) + `"}` + "\n"
	var packed bytes.Buffer
	z := must.Get(gzip.NewWriterLevel(&packed, gzip.BestCompression))(t)
	_, _ = io.CopyN(z, &repeated{text: line}, int64(n*len(line))) // a buffer takes everything
	_ = z.Close()
	w := newWorld(t)
	tokens := &countedTokens{}
	w.drain.deps.Tokens = tokens
	answer := w.post(202, packed.String())
	total := 0
	for _, h := range w.Hits() {
		total += int(h.N)
	}
	if packed.Len() > 32<<10 || total != n || !strings.Contains(answer, fmt.Sprintf(`"hits":%d`, n)) {
		t.Errorf("%d bytes: %s, %d counted", packed.Len(), answer, total)
	}
	if least := n*matchCost + n*len(line); tokens.bytes < least {
		t.Errorf("%d tokens were taken, want %d at least", tokens.bytes, least)
	}
}

// What a request does for its secrets has a bound of its own for each kind of work: lines read, hashes computed and
// records made.
func TestWorkOfARequestIsBounded(t *testing.T) {
	for name, secret := range map[string]func(i int) string{
		"one secret":            func(int) string { return leakedKey(1) },
		"many secrets":          leakedKey,
		"without fingerprints":  func(i int) string { return "redis://:" + leakedKey(i)[8:] + "@cache" },
		"in many applications":  func(i int) string { return fmt.Sprintf(`{"app":"a-%d","m":"%s"}`, i, leakedKey(1)) },
		"passwords, many hosts": func(i int) string { return fmt.Sprintf(`{"app":"a-%d","m":"redis://:q8ZkT2vN@c"}`, i) },
	} {
		w := newWorld(t)
		h := w.newHits(t)
		stream := scanner().NewStream(h.add)
		const n = maxMatches + 2_000
		for i := range n {
			must.Get(io.WriteString(stream, secret(i)+"\n"))(t)
		}
		_ = stream.Close()
		total := h.beyond
		for _, x := range h.list {
			total += uint64(x.N)
		}
		if h.lines > maxLines+maxRecords || len(h.list) > maxRecords || h.matches != n || total != n {
			t.Errorf("%s: %d secrets, %d counted, %d lines read, %d records", name, h.matches, total, h.lines, len(h.list))
		}
		if h.beyond < n-maxMatches-maxMatchesOfRule {
			t.Errorf("%s: %d secrets were hashed", name, n-h.beyond)
		}
	}
}

// newHits returns the hits of a request without a body.
func (w *world) newHits(t *testing.T) *hits {
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))(t)
	return w.drain.newHits(r, newRequest(r, &w.to, ""))
}

// Of a drain one request is scanned at a time; of the node as many as half of its cores, from drains in turn.
func TestScansWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newSlots()
		width := cap(all.scans)
		is.Equal(t, width, max(1, runtime.GOMAXPROCS(0)/2), "scans at the same time")
		var mu sync.Mutex // guards what follows
		running, most, ofDrain := 0, 0, map[string]int{}
		var order []string
		var wg sync.WaitGroup
		enter := func(drain string) {
			in := must.Get(all.enter(drain))(t)
			wg.Go(func() {
				defer in.leave()
				cpu := &turn{in: in, done: t.Context().Done(), waited: func(time.Duration) {}}
				is.OK(t, cpu.take())
				defer cpu.give()
				mu.Lock()
				running++
				ofDrain[drain]++
				order = append(order, drain)
				most = max(most, running)
				if ofDrain[drain] > 1 {
					t.Errorf("%d requests of %s are scanned", ofDrain[drain], drain)
				}
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				running--
				ofDrain[drain]--
			})
			synctest.Wait()
		}
		for range maxRunningOfDrain {
			enter("busy")
		}
		for i := range width {
			enter(fmt.Sprint("other-", i))
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		in := must.Get(all.enter("busy-2"))(t)
		cpu := &turn{in: in, done: ctx.Done(), waited: func(time.Duration) {}}
		if err := cpu.take(); !errors.Is(err, errBusy) || time.Since(began) != time.Second/2 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		cpu.give() // it has none
		in.leave()
		wg.Wait()
		is.Equal(t, most, width, "scans at the same time")
		for _, drain := range order[:width+1] { // at once, or after one scan of the other
			if drain != "busy" {
				return
			}
		}
		t.Errorf("a drain with %d requests delays the others: %v", maxRunningOfDrain, order)
	})
}

// A request keeps the turn for a moment, then others have theirs.
func TestTurnsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newSlots()
		all.scans = make(chan struct{}, 1)
		turnOf := func(drain string) *turn {
			in := must.Get(all.enter(drain))(t)
			return &turn{in: in, done: t.Context().Done(), waited: func(time.Duration) {}}
		}
		one, other := turnOf("one"), turnOf("other")
		must.Do(t, one.take())
		var wg sync.WaitGroup
		wg.Go(func() {
			is.OK(t, other.take())
		})
		synctest.Wait()
		if err := one.share(); err != nil || other.held {
			t.Errorf("%v, the other request has the turn: %v", err, other.held)
		}
		time.Sleep(maxTurn)
		wg.Go(func() {
			is.OK(t, one.share())
		})
		synctest.Wait()
		if one.held || !other.held {
			t.Errorf("after %v the turns are %v and %v", maxTurn, one.held, other.held)
		}
		other.give()
		wg.Wait()
	})
}

// A body whose client waits for its own drain's tokens is not slow: it is accepted, however long that takes.
func TestWaitingForTokensIsNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.drain.deps.Tokens = &slowTokens{}
		status, took := w.sendSlowly(t, 1, 20*(32<<10), 0)
		if status != "202" || took < 20*time.Second {
			t.Errorf("answered %s after %v", status, took)
		}
	})
}

// So is one that is complete and waits for other scans of the node.
func TestWaitingForATurnIsNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scans := w.drain.running.scans
		for range cap(scans) {
			scans <- struct{}{}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Minute)
			for range cap(scans) {
				<-scans
			}
		})
		if status, took := w.sendSlowly(t, 1, 1<<10, 0); status != "202" || took != time.Minute {
			t.Errorf("answered %s after %v", status, took)
		}
		wg.Wait()
	})
}

// slowTokens lets each taker wait three seconds.
type slowTokens struct {
	unlimited
	waited bool
}

func (s *slowTokens) TakeSharedTokens(string, string, int, float64) time.Duration {
	if s.waited = !s.waited; s.waited {
		return 3 * time.Second
	}
	return 0
}

// BenchmarkMatches reports the CPU time of a secret: of one that is counted, and of the scanner alone.
func BenchmarkMatches(b *testing.B) {
	const n = 80_000
	body := strings.Repeat(leakedKey(1)+"\n", n)
	w := newWorld(b)
	w.drain.deps.Tokens = unlimited{}
	run := func(name string, once func()) {
		b.Run(name, func(b *testing.B) {
			before := kit.CPUTime(b)
			for b.Loop() {
				once()
			}
			b.ReportMetric(float64((kit.CPUTime(b)-before).Nanoseconds())/float64(b.N)/n, "cpu-ns/match")
		})
	}
	run("drain", func() {
		w.post(202, body)
		w.Records = w.Records[:0]
	})
	run("scanner", func() {
		s := scanner().NewStream(func(secrets.Found) bool { return true })
		must.Get(io.WriteString(s, body))(b)
		_ = s.Close()
	})
}
