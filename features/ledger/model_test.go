package ledger

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// model plays the service on a fakeLog, one step at a time: ingest, the dispatchers of all partitions, and faults. It
// follows the dispatcher's rules: the follow-up is in the log before the outcome, both before the record is
// completed, and only completed records are committed.
type model struct {
	t   testing.TB
	r   *rand.Rand
	log *fakeLog
	ids *id.Generator
	now time.Time

	accepted  []*event.Event // with or without deliveries
	poisoned  int            // undecodable event records that name nothing
	noReplays bool           // no replays
	trackers  map[stream.Partition]*tracking
	jobs      []*job
}

// chain identifies a chain.
type chain struct {
	event     id.ID
	dest, run string
}

// tracking is a dispatcher's knowledge of one partition.
type tracking struct {
	next int64
	done map[int64]bool
	left map[int64]int
}

// job is one delivery. Its steps run one by one, and a crash may come between any two.
type job struct {
	at     stream.Partition
	offset int64
	steps  []func()
}

func newModel(t testing.TB, seed uint64) *model {
	m := &model{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), log: newFakeLog(2), now: time.UnixMilli(1_800_000_000_000),
		trackers: map[stream.Partition]*tracking{},
	}
	m.ids = id.NewGenerator(func() time.Time { return m.now })
	return m
}

// workPartitions returns the partitions of all topics that hold work.
func (m *model) workPartitions() (all []stream.Partition) {
	for i := range m.log.partitions {
		for _, topic := range append([]string{stream.Events, stream.Commands}, tierTopics()...) {
			all = append(all, stream.Partition{Topic: topic, Index: i})
		}
	}
	return all
}

func (m *model) newID(partition int32) id.ID {
	d := must.Get(m.ids.New(partition))(m.t)
	return d
}

func (m *model) put(topic string, partition int32, r *stream.Record) {
	m.log.append(topic, partition, r, m.now)
}

// step lets one random thing happen.
func (m *model) step() {
	m.now = m.now.Add(time.Duration(m.r.IntN(2000)) * time.Millisecond)
	switch n := m.r.IntN(100); {
	case n < 15:
		m.accept()
	case n < 20 && !m.noReplays:
		m.replay()
	case n < 45:
		m.poll()
	case n < 85:
		m.work()
	case n < 97:
		m.commit()
	case n < 99:
		m.crash()
	default:
		m.rewind()
	}
}

func (m *model) accept() {
	partition := int32(m.r.IntN(int(m.log.partitions)))
	e := &event.Event{
		ID: m.newID(partition), Account: "acc_1", Endpoint: "ep_1", Source: event.SourceAPI, Verdict: event.VerdictVerified,
		Dests: []string{"dst_a", "dst_b", "dst_c"}[:m.r.IntN(4)], Body: []byte("body"),
	}
	switch m.r.IntN(12) {
	case 0:
		e.Verdict = event.VerdictRejected
	case 1:
		e.DuplicateOf = e.ID.Text(id.Event)
	case 2: // only its name can be decoded
		r := e.Record()
		r.Headers[0].Value = []byte("9")
		if len(e.Dests) == 0 {
			m.poisoned++
		} else {
			m.accepted = append(m.accepted, e)
		}
		m.put(stream.Events, partition, r)
		return
	}
	m.accepted = append(m.accepted, e)
	m.put(stream.Events, partition, e.Record())
	if m.r.IntN(30) == 0 {
		m.put(stream.Events, partition, e.Record()) // put back from the topic dead
	}
}

func (m *model) replay() {
	if len(m.accepted) == 0 {
		return
	}
	e := m.accepted[m.r.IntN(len(m.accepted))]
	w := &event.Work{Event: e, Dest: []string{"dst_a", "dst_b", "dst_new"}[m.r.IntN(3)], Trigger: event.TriggerReplay,
		Attempt: 1, Due: m.now}
	w.Run = m.newID(e.ID.Partition()).Text(id.Run)
	if m.r.IntN(3) == 0 {
		w.Prior, w.PriorReason = event.Failed, event.AttemptsExhausted
	}
	if m.r.IntN(20) == 0 {
		w.Run = "" // work of the automatic chain, put back by hand
	}
	m.put(stream.Commands, e.ID.Partition(), mustRecord(m.t, w))
}

func mustRecord(t testing.TB, w *event.Work) *stream.Record {
	r := must.Get(w.Record())(t)
	return r
}

func (m *model) tracker(p stream.Partition) *tracking {
	if m.trackers[p] == nil {
		t := &tracking{next: m.log.commits[p].Completed().FirstIncomplete(), done: map[int64]bool{}, left: map[int64]int{}}
		done := m.log.commits[p].Completed()
		for o := range int64(len(m.log.records[p])) {
			t.done[o] = done.Contains(o)
		}
		m.trackers[p] = t
	}
	return m.trackers[p]
}

// poll receives the next record of some partition that has one.
func (m *model) poll() bool {
	all := m.workPartitions()
	for _, i := range m.r.Perm(len(all)) {
		p, t := all[i], m.tracker(all[i])
		for t.next < int64(len(m.log.records[p])) {
			o := t.next
			t.next++
			r := m.log.records[p][o]
			if r == nil || t.done[o] {
				t.done[o] = true
				continue
			}
			m.receive(p, o, r)
			return true
		}
	}
	return false
}

func (m *model) receive(p stream.Partition, o int64, r *stream.Record) {
	t := m.tracker(p)
	add := func(steps ...func()) { m.jobs = append(m.jobs, &job{p, o, steps}) }
	t.left[o] = 1
	if p.Topic != stream.Events {
		w, err := event.DecodeWork(r)
		if err != nil {
			add(m.deadLetter(p, r, err)...)
			return
		}
		add(func() { m.deliver(m.jobs[len(m.jobs)-1], w) })
		return
	}
	e, err := event.Decode(r)
	if err != nil {
		add(m.deadLetter(p, r, err)...)
		return
	}
	if e.Verdict == event.VerdictRejected || e.DuplicateOf != "" || len(e.Dests) == 0 {
		t.done[o] = true
		return
	}
	t.left[o] = len(e.Dests)
	for _, dest := range e.Dests {
		w := &event.Work{Event: e, Dest: dest, Trigger: event.TriggerInitial, Attempt: 1}
		add(func() { m.deliver(m.jobs[len(m.jobs)-1], w) })
	}
}

func (m *model) deadLetter(p stream.Partition, r *stream.Record, err error) (steps []func()) {
	steps = append(steps, func() {
		m.put(stream.Dead, p.Index, stream.Config{Prefix: "t."}.DeadLetterRecord(r, stream.DispatchGroup, err))
	})
	if remains, ok := event.Salvage(r); ok {
		for _, dest := range remains.Dests {
			steps = append(steps, func() {
				m.put(stream.Outcomes, p.Index, (&event.Outcome{
					Event: remains.Event, Account: "acc_1", Endpoint: "ep_1", Dest: dest, Status: event.Failed,
					Reason: event.Undecodable, At: m.now, Run: remains.Run,
				}).Record())
			})
		}
	}
	return steps
}

// work runs the next step of a random job, which it moves to the end of the list.
func (m *model) work() bool {
	if len(m.jobs) == 0 {
		return false
	}
	i, last := m.r.IntN(len(m.jobs)), len(m.jobs)-1
	m.jobs[i], m.jobs[last] = m.jobs[last], m.jobs[i]
	j := m.jobs[last]
	step := j.steps[0]
	j.steps = j.steps[1:]
	step()
	if len(j.steps) == 0 {
		m.jobs = m.jobs[:len(m.jobs)-1]
		t := m.tracker(j.at)
		if t.left[j.offset]--; t.left[j.offset] == 0 {
			t.done[j.offset] = true
		}
	}
	return true
}

// deliver decides the result of an attempt and queues the records to write.
func (m *model) deliver(j *job, w *event.Work) {
	o := &event.Outcome{
		Event: w.Event.ID, Account: "acc_1", Endpoint: "ep_1", Dest: w.Dest, Run: w.Run, At: m.now,
		Attempt: &event.Attempt{ID: m.newID(j.at.Index), StartedAt: m.now, Trigger: w.Trigger},
	}
	again := *w
	n := m.r.IntN(10)
	if w.Attempt > 6 && n > 5 {
		n = 0
	}
	switch {
	case n < 4:
		o.Status, o.Attempt.OK = event.Delivered, true
	case n < 5:
		o.Status, o.Reason = event.Failed, event.AttemptsExhausted
	case n < 6:
		o.Status, o.Reason, o.Attempt = event.Skipped, event.Superseded, nil
		if w.Prior.Terminal() {
			o.Status, o.Reason = w.Prior, w.PriorReason
		}
	default:
		wait := time.Duration(1+m.r.IntN(7200)) * time.Second
		o.Status, o.NextAt = event.Retrying, m.now.Add(wait)
		again.Attempt, again.Due = w.Attempt+1, o.NextAt
		if n == 9 { // parked: the first time with an outcome
			o.Status, o.Reason, o.Attempt = event.Held, event.BreakerOpen, nil
			again.Attempt = w.Attempt
			if again.Parked != "" {
				o = nil
			}
			again.Parked = event.BreakerOpen
			if m.r.IntN(4) == 0 {
				again.Attempt++ // the delivery must end some time
			}
		}
		r := mustRecord(m.t, &again)
		if m.r.IntN(40) == 0 {
			m.corrupt(r)
		}
		tiers := tierTopics()
		topic := tiers[m.r.IntN(len(tiers))]
		j.steps = append(j.steps, func() { m.put(topic, j.at.Index, r) })
	}
	if o != nil {
		record := o.Record()
		j.steps = append(j.steps, func() { m.put(stream.Outcomes, j.at.Index, record) })
		if m.r.IntN(15) == 0 { // written twice: the answer of the log was lost
			j.steps = append(j.steps, func() { m.put(stream.Outcomes, j.at.Index, record) })
		}
	}
}

// corrupt makes a record of work undecodable: as an event, or as work, so that its destination and run are lost.
func (m *model) corrupt(r *stream.Record) {
	if m.r.IntN(2) == 0 {
		r.Headers[0].Value = []byte("9")
		return
	}
	r.Headers[len(r.Headers)-1].Value = []byte("{")
}

// commit commits some partitions, with a random number of gaps in the metadata.
func (m *model) commit() {
	for _, p := range m.workPartitions() {
		if m.r.IntN(3) > 0 {
			m.commitOne(p, m.r.IntN(5))
		}
	}
}

func (m *model) commitOne(p stream.Partition, room int) {
	t := m.tracker(p)
	mark := int64(0)
	for t.done[mark] && mark < t.next {
		mark++
	}
	var gaps []stream.Gap
	for o := mark; o < t.next && len(gaps) < room; o++ {
		if !t.done[o] {
			continue
		}
		if n := len(gaps); n > 0 && gaps[n-1].To == o {
			gaps[n-1].To++
		} else {
			gaps = append(gaps, stream.Gap{From: o, To: o + 1})
		}
	}
	metadata, _ := stream.EncodeGaps(mark, gaps)
	m.log.commits[p] = stream.Commit{Offset: mark, Metadata: metadata}
}

// crash forgets everything in memory.
func (m *model) crash() {
	m.jobs = nil
	clear(m.trackers)
}

// rewind resets a committed offset, as an operator does to repeat deliveries.
func (m *model) rewind() {
	m.crash()
	all := m.workPartitions()
	p := all[m.r.IntN(len(all))]
	if mark := m.log.commits[p]; mark.Offset > 0 {
		m.log.commits[p] = stream.Commit{Offset: m.r.Int64N(mark.Offset)}
	}
}

// settle runs until everything has ended.
func (m *model) settle() {
	for m.work() || m.poll() {
		m.now = m.now.Add(time.Second)
	}
	for _, p := range m.workPartitions() {
		m.commitOne(p, 0)
	}
}

// undone returns the positions of uncommitted records.
func (m *model) undone() (all []stream.Partition, offsets []int64) {
	for _, p := range m.workPartitions() {
		done := m.log.commits[p].Completed()
		for o, r := range m.log.records[p] {
			if r != nil && !done.Contains(int64(o)) {
				all, offsets = append(all, p), append(offsets, int64(o))
			}
		}
	}
	return all, offsets
}

func (m *model) String() string {
	var b bytes.Buffer
	for _, p := range m.workPartitions() {
		fmt.Fprintf(&b, "%v: %d records, mark %+v\n", p, len(m.log.records[p]), m.log.commits[p])
	}
	return b.String()
}

// A book takes no more memory than Span.Limit promises.
func TestBookIsCompact(t *testing.T) {
	const events = 30_000
	ids := id.NewGenerator(time.Now)
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, b := heap(), newBook(2*events)
	for range events {
		eventID := must.Get(ids.New(0))(t)
		e := &event.Event{ID: eventID, Endpoint: "ep_1", Dests: []string{"dst_a"}}
		must.Do(t, b.addEvent(e.Record()))
		o := &event.Outcome{Event: eventID, Endpoint: "ep_1", Dest: "dst_a", Status: event.Delivered, At: time.Now(),
			Attempt: &event.Attempt{ID: eventID, OK: true}}
		must.Do(t, b.addOutcome(o.Record()))
	}
	each := (heap() - before) / b.size()
	t.Logf("%d bytes for each event and each delivery", each)
	if each > 100 {
		t.Errorf("an event or delivery takes %d bytes, Span.Limit promises 100", each)
	}
	is.ErrorIs(t, b.addEvent((&event.Event{ID: id.Lowest(time.Now()), Endpoint: "ep_1"}).Record()), ErrTooMany,
		"the book takes more than its limit")
}

// The use of a tripwire among the events is none of them.
func TestUsesAreNotCounted(t *testing.T) {
	b := newBook(10)
	e := &event.Event{ID: newModel(t, 1).newID(0), Endpoint: "trw_1", Source: event.SourceTripwire, Dests: []string{"d"}}
	if err := b.addRecord(stream.Events, e.Record()); err != nil || b.size() != 0 {
		t.Errorf("%d entries, %v", b.size(), err)
	}
}

// naiveCounts counts in the simplest way: of all outcomes of a delivery the latest one decides.
func (m *model) naiveCounts() Counts {
	type result struct {
		ms     int64
		rank   int
		offset int64
		class  class
	}
	latest := map[chain]result{} // by event and destination
	offer := func(c chain, run string, w result) {
		if run != "" {
			d := must.Get(id.Parse(id.Run, run))(m.t)
			w.ms = max(w.ms, d.UnixMilli())
		}
		have, ok := latest[c]
		if !ok || w.ms > have.ms || w.ms == have.ms && (w.rank > have.rank || w.rank == have.rank && w.offset > have.offset) {
			latest[c] = w
		}
	}
	deliveries, tries := map[chain]bool{}, map[chain]map[id.ID]bool{}
	for _, e := range m.accepted {
		if e.Verdict != event.VerdictRejected && e.DuplicateOf == "" {
			for _, dest := range e.Dests {
				deliveries[chain{e.ID, dest, ""}] = true
			}
		}
	}
	ended := map[chain]bool{}
	for i := range m.log.partitions {
		for _, r := range m.log.records[stream.Partition{Topic: stream.Commands, Index: i}] {
			w := must.Get(event.DecodeWork(r))(m.t)
			c := chain{w.Event.ID, w.Dest, ""}
			deliveries[c] = true
			if w.Run != "" {
				offer(c, w.Run, result{offset: -1, class: classInFlight})
			}
		}
		for offset, r := range m.log.records[stream.Partition{Topic: stream.Outcomes, Index: i}] {
			o := must.Get(event.DecodeOutcome(r))(m.t)
			c := chain{o.Event, o.Dest, ""}
			deliveries[c] = true
			w := result{offset: int64(offset), class: classInFlight}
			switch {
			case o.Status == event.Delivered:
				w.rank, w.class, w.ms = 2, classDelivered, o.At.UnixMilli()
			case o.Status == event.Failed && o.Reason == event.Undecodable:
				w.rank, w.class = 1, classDead
			case o.Status == event.Failed:
				w.rank, w.class = 1, classFailed
			case o.Status == event.Skipped:
				w.rank, w.class = 1, classSkipped
			}
			full := chain{o.Event, o.Dest, o.Run}
			ended[full] = ended[full] || w.rank > 0
			if o.Attempt != nil && o.Attempt.OK {
				if tries[full] == nil {
					tries[full] = map[id.ID]bool{}
				}
				tries[full][o.Attempt.ID] = true
			}
			offer(c, o.Run, w)
		}
	}
	var n Counts
	asks := map[id.ID]bool{}
	for c := range deliveries {
		asks[c.event] = true
		class := classInFlight
		if w, ok := latest[c]; ok {
			class = w.class
		}
		n.count(class)
	}
	for _, e := range m.accepted {
		switch {
		case asks[e.ID]:
		case e.Verdict == event.VerdictRejected:
			n.count(classRejected)
		default:
			n.count(classSkipped)
		}
	}
	for range m.poisoned {
		n.count(classDead)
	}
	for _, ids := range tries {
		n.Duplicates += len(ids) - 1
	}
	return n
}
