package segment

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Snapshot is a copy of an open log. It has the commits of its beginning and records up to the call of Copy, so that
// what a group writes elsewhere between the two, it reads again in the copy.
type Snapshot struct {
	log   *Log
	state stateEntry
}

// Snapshot takes the topics and commits of now. Nothing is trimmed until Close: Trim does nothing.
func (l *Log) Snapshot() *Snapshot {
	l.trims.Lock()
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	return &Snapshot{l, l.state.whole()}
}

// Close allows trimming again.
func (s *Snapshot) Close() { s.log.trims.Unlock() }

// Copy calls each for every file of a directory that Open opens. All partitions end at one moment: no record is in the
// copy without those that were acknowledged before it was appended.
func (s *Snapshot) Copy(each func(name string, write func(io.Writer) error) error) error {
	text, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	err = each(StateFile, func(w io.Writer) error {
		_, err := w.Write(appendFrame(nil, seedOf(StateFile), 0, 0, 0,
			func(dst []byte) []byte { return append(dst, text...) }))
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range s.files() {
		if err := each(f.name, func(w io.Writer) error { return s.copy(f, w) }); err != nil {
			return fmt.Errorf("copy %s: %w", f.name, err)
		}
	}
	return nil
}

// piece is what a file has at one moment.
type piece struct {
	name string
	size int64
}

// files holds all partitions for the moment in which it looks how long they are.
func (s *Snapshot) files() (all []piece) {
	for _, t := range s.state.Topics {
		for i := range t.Partitions {
			p := s.log.Partition(t.Name, i)
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, f := range p.segments {
				all = append(all, piece{p.name(f.base), f.size})
			}
		}
	}
	return all
}

func (s *Snapshot) copy(f piece, to io.Writer) error {
	file, err := s.log.disk.Open(s.log.path(f.name), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.CopyN(to, io.NewSectionReader(file, 0, f.size), f.size)
	return err
}
