package stream

import (
	"errors"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Ranges of several partitions are read to their ends and not beyond, whatever else the log contains.
func TestReadRanges(t *testing.T) { onEachLog(t, 1, testReadRanges) }

func testReadRanges(t *testing.T, c Config, p *Producer) {
	for i := range byte(30) {
		for _, topic := range []string{Events, Outcomes} {
			must.Do(t, p.ProduceSync(t.Context(), topic, 0, &Record{Value: []byte{i}}))
		}
	}
	r := must.Get(NewReader(c, "test"))(t)
	defer r.Close()
	events, outcomes := Partition{Topic: Events}, Partition{Topic: Outcomes}
	var got map[Partition][]int64
	read := func(each func() error, ranges ...Range) error {
		got = map[Partition][]int64{}
		return r.ReadRanges(t.Context(), ranges, func(p Partition, records []*Record) error {
			for _, r := range records {
				got[p] = append(got[p], r.Offset)
			}
			return each()
		})
	}
	on := func() error { return nil }
	must.Do(t, read(on, Range{events, 27, 30}, Range{outcomes, 3, 5}, Range{Partition{Commands, 0}, 0, 0}))
	is.Same(t, got, map[Partition][]int64{events: {27, 28, 29}, outcomes: {3, 4}})
	broken := errors.New("broken")
	is.ErrorIs(t, read(func() error { return broken }, Range{events, 0, 30}), broken, "ended with")
	is.OK(t, read(func() error { return ErrStop }, Range{events, 0, 30}), "ended with")
	must.Do(t, r.Trim(t.Context(), events, 10))
	is.ErrorIs(t, read(on, Range{events, 5, 30}), ErrTrimmed, "deleted records were not reported: read %v", got)
}

// A commit is read with its metadata.
func TestCommits(t *testing.T) { onEachLog(t, 1, testCommits) }

func testCommits(t *testing.T, c Config, p *Producer) {
	must.Do(t, p.ProduceSync(t.Context(), Events, 0, &Record{Value: []byte("x")}))
	m := join(t, c, GroupConfig{})
	poll(t, m, func([]*Record) bool { return true })
	at := Partition{Topic: Events}
	want := Commit{Offset: 3, LeaderEpoch: -1, Metadata: metadata(t, 3, Gap{5, 6})}
	must.Do(t, m.Commit(t.Context(), map[Partition]Commit{at: want}))
	r := must.Get(NewReader(c, "test"))(t)
	defer r.Close()
	got := must.Get(r.Commits(t.Context(), "group", Events, Commands))(t)
	is.Same(t, got, map[Partition]Commit{at: want})
}
