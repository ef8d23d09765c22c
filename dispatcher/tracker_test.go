package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// gaps makes gaps [from, to) of pairs.
func gaps(pairs ...int64) []stream.Gap {
	var out []stream.Gap
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, stream.Gap{From: pair[0], To: pair[1]})
	}
	return out
}

func TestTrackerCommitOffsetAndGaps(t *testing.T) {
	f := func(name string, start int64, added, done []int64, wantOffset int64, want []stream.Gap) {
		t.Helper()
		var tr tracker
		tr.start(start, 1, nil)
		for _, o := range added {
			tr.add(o, 1)
		}
		for _, o := range done {
			tr.done(o)
		}
		is.Equal(t, tr.commitOffset, wantOffset, "%s: commit offset", name)
		is.Equal(t, cmp.Diff(want, tr.gaps()), "", "%s: gaps", name)
	}
	f("nothing read", 7, nil, nil, 7, nil)
	f("nothing committed, nothing read", -1, nil, nil, -1, nil)
	f("first record decides", -1, []int64{5, 6}, nil, 5, nil)
	f("in order", 0, []int64{0, 1, 2}, []int64{0, 1}, 2, nil)
	f("all", 0, []int64{0, 1, 2}, []int64{2, 0, 1}, 3, nil)
	f("out of order", 10, []int64{10, 11, 12, 13, 14}, []int64{11, 12, 14}, 10, gaps(11, 13, 14, 15))
	f("the log left offsets out", 0, []int64{0, 5, 6}, []int64{5}, 0, gaps(1, 6))
	f("the log was trimmed beyond the commit offset", 3, []int64{100, 101}, []int64{100}, 101, nil)
	f("the log begins later and the head is open", 3, []int64{100, 101}, []int64{101}, 100, gaps(101, 102))
}

func TestTrackerAcrossWords(t *testing.T) {
	var tr tracker
	tr.start(1, 1, nil)
	const n = 10_000
	for o := int64(1); o <= n; o++ {
		tr.add(o, 1)
	}
	for o := int64(n); o > 1; o-- {
		tr.done(o)
	}
	if d := cmp.Diff(gaps(2, n+1), tr.gaps()); tr.commitOffset != 1 || d != "" {
		t.Fatalf("commit offset %d, gaps %s", tr.commitOffset, d)
	}
	tr.done(1)
	if tr.commitOffset != n+1 || tr.gaps() != nil {
		t.Fatalf("commit offset %d, gaps %v", tr.commitOffset, tr.gaps())
	}
	if len(tr.words) > minWords {
		t.Fatalf("%d words are kept for nothing", len(tr.words))
	}
}

// However long a partition runs, the tracker keeps little, and it loses no offset when it gives memory back.
func TestTrackerGivesMemoryBack(t *testing.T) {
	var tr tracker
	tr.start(0, 1, nil)
	const n, late = 50_000, 3000 // every tenth record is that late
	lowest := func(next int64) int64 { return max(0, (next-late+9)/10*10) }
	for o := range int64(n) {
		tr.add(o, 1)
		if o%10 != 0 {
			tr.done(o)
		} else if o >= late {
			tr.done(o - late)
		}
		if want := lowest(o + 1); o > late && tr.commitOffset != want {
			t.Fatalf("after offset %d: commit offset %d, want %d", o, tr.commitOffset, want)
		}
		if most := 2*(late/wordBits) + 2*minWords; len(tr.words) > most {
			t.Fatalf("after offset %d: %d words are kept, want at most %d", o, len(tr.words), most)
		}
	}
	for o := lowest(n); o < n; o += 10 {
		tr.done(o)
	}
	if tr.commitOffset != n || tr.gaps() != nil {
		t.Errorf("commit offset %d, gaps %v", tr.commitOffset, tr.gaps())
	}
}

// A record that is done before an earlier one makes one gap with the gap of an earlier owner behind it.
func TestTrackerJoinsGaps(t *testing.T) {
	var tr tracker
	tr.start(0, 1, gaps(2, 4, 6, 8))
	for o := range int64(2) {
		tr.add(o, 1)
	}
	tr.done(1)
	is.Same(t, tr.gaps(), gaps(1, 4, 6, 8))
	for o := int64(2); o < 8; o++ {
		tr.add(o, 1)
	}
	is.Same(t, tr.gaps(), gaps(1, 4, 6, 8))
}

func TestTrackerSkipsGapsOfThePreviousOwner(t *testing.T) {
	var tr tracker
	tr.start(10, 3, gaps(11, 13, 20, 21))
	var work []int64
	for o := int64(10); o < 16; o++ {
		if tr.add(o, 3) {
			work = append(work, o)
		}
	}
	must.Equal(t, cmp.Diff([]int64{10, 13, 14, 15}, work), "")
	// Gaps above the records that were read so far must survive the next commit.
	must.Equal(t, cmp.Diff(gaps(11, 13, 20, 21), tr.gaps()), "")
	if tr.add(12, 3) {
		t.Fatal("a record was given out twice")
	}
}

func TestTrackerLeaderEpoch(t *testing.T) {
	var tr tracker
	tr.start(0, -1, nil)
	for o := range int64(10) {
		tr.add(o, int32(o/5)) // 0 0 0 0 0 1 1 1 1 1
	}
	want := func(epoch int32) {
		t.Helper()
		must.Equal(t, tr.leaderEpoch(), epoch, "at commit offset %d: epoch", tr.commitOffset)
	}
	want(-1)
	for o := range int64(5) {
		tr.done(o)
	}
	want(0)
	tr.done(5)
	want(1)
}

// Against a model: commitOffset is the lowest offset that is not done, and the gaps are exactly what is done above
// it.
func TestCommitNeverPassesUnfinished(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var tr tracker
		start := r.Int64N(1000)
		tr.start(start, 1, nil)
		var isDone []bool // by offset from start; one that the log left out is done
		var open []int64
		for range 1000 {
			if r.IntN(2) == 0 || len(open) == 0 {
				if r.IntN(20) == 0 {
					isDone = append(isDone, true)
				}
				o := start + int64(len(isDone))
				tr.add(o, 1)
				open, isDone = append(open, o), append(isDone, false)
			} else {
				i := r.IntN(min(len(open), 40))
				tr.done(open[i])
				isDone[open[i]-start] = true
				open = slices.Delete(open, i, i+1)
			}
			want := start + int64(len(isDone))
			if i := slices.Index(isDone, false); i >= 0 {
				want = start + int64(i)
			}
			must.Equal(t, tr.commitOffset, want, "seed %d: commit offset", seed)
		}
		skipped := make([]bool, len(isDone))
		for _, h := range tr.gaps() {
			for o := h.From; o < h.To; o++ {
				skipped[o-start] = true
			}
		}
		for i, done := range isDone[tr.commitOffset-start:] {
			if o := int(tr.commitOffset-start) + i; done != skipped[o] {
				t.Fatalf("seed %d: offset %d done %v, gap %v", seed, o, done, skipped[o])
			}
		}
	}
}

// Random completion orders, commits now and then, a crash at any point: every record is done at least once, and only
// records done since the last commit, or those that did not fit into it, are done twice.
func TestRandomCompletionsSurviveCrashes(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		const records = 600
		times := make([]int, records)
		var committed int64
		metadata := ""
		redone, allowed := 0, 0
		for times[records-1] == 0 || slices.Contains(times, 0) || committed < records {
			before := must.Get(stream.Commit{Offset: committed, Metadata: metadata}.Gaps())(t)
			var tr tracker
			tr.start(committed, 1, before)
			next, open, sinceCommit := committed, []int64(nil), 0
			for life := r.IntN(1500); life > 0; life-- {
				switch {
				case r.IntN(50) == 0:
					committed, sinceCommit = tr.commitOffset, 0
					metadata, _ = stream.EncodeGaps(committed, tr.gaps())
				case next < records && (len(open) == 0 || r.IntN(2) == 0):
					if tr.add(next, 1) {
						open = append(open, next)
					}
					next++
				case len(open) > 0:
					i := r.IntN(len(open))
					o := open[i]
					open = slices.Delete(open, i, i+1)
					if times[o]++; times[o] > 1 {
						redone++
					}
					tr.done(o)
					sinceCommit++
				}
			}
			allowed += sinceCommit
		}
		if redone > allowed {
			t.Fatalf("seed %d: %d done again, at most %d were done after a commit", seed, redone, allowed)
		}
	}
}

// A delivery of a cancelled replay run is skipped at once, although its run is paced: in the topic of commands
// and in a retry topic, before its first attempt and between two. It gets its earlier status back.
func TestDeliveriesOfCancelledRuns(t *testing.T) {
	f := func(cancelled bool, change func(*event.Work), want string) {
		t.Helper()
		bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
			s := &sink{}
			url, _ := w.serve(80, s)
			w.endpoint(url)
			w.start(testConfig())
			work := &event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1,
				Run: id.NewGenerator(nil).NewUnbounded(0).Text(id.Run)}
			change(work)
			if cancelled {
				w.view.cancelRun(work.Run)
			}
			began := time.Now()
			w.command(work)
			outcome := w.outcomes(count(1))[0]
			got := fmt.Sprint(outcome.Status, " ", outcome.Reason, " ", outcome.SkipReason, " ", len(s.all()),
				time.Since(began) > 15*time.Second)
			is.Equal(t, got, want, "the outcome")
		})
	}
	late := func(w *event.Work) { w.Due = time.Now().Add(20 * time.Second) }
	f(false, func(*event.Work) {}, "delivered   1 false")
	f(false, late, "delivered   1 true")
	f(true, func(*event.Work) {}, "skipped run_stopped run_stopped 0 false")
	f(true, late, "skipped run_stopped run_stopped 0 false")
	f(true, func(w *event.Work) { w.Attempt = 3 }, "skipped run_stopped run_stopped 0 false")
	f(true, func(w *event.Work) { w.Prior, w.PriorReason = event.Failed, event.Gone410 },
		"failed gone_410 run_stopped 0 false")
}
