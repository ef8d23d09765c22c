package secrets

import (
	"errors"
	"sync"
)

// Bytes of a stream in memory, and how many before and after a credential its report shows.
const (
	window = 64 << 10
	around = 1 << 10
)

// Found is a credential in a stream. Its slices are valid during the call of emit only; the stream clears them after
// it.
type Found struct {
	Rule   *Rule
	Offset int64 // of the secret's first byte, from the start of the stream
	Secret []byte
	// Before and After are up to 1 KiB of the text around the secret.
	Before, After []byte
}

// Stream scans what is written to it, and finds what Scan finds in the whole. It is for one goroutine. It holds 64 KiB;
// bytes that it has scanned, and all at Close, are cleared. Credentials are reported when the window is full, and at
// Close.
type Stream struct {
	s      *Scanner
	emit   func(Found) bool
	window *[window]byte
	n      int   // bytes in the window
	base   int64 // offset of window[0] in the stream
	// i and state are how far the automaton has read.
	i       int
	state   states
	pending pending
	stopped bool
}

var windows = sync.Pool{New: func() any { return new([window]byte) }}

var errClosed = errors.New("the stream is closed")

// NewStream returns a stream that calls emit for each credential, in order of position, until it returns false. What is
// written after that is dropped.
func (s *Scanner) NewStream(emit func(Found) bool) *Stream {
	return &Stream{s: s, emit: emit, window: windows.Get().(*[window]byte)}
}

// Write scans p. It fails only after Close.
func (t *Stream) Write(p []byte) (int, error) {
	if t.window == nil {
		return 0, errClosed
	}
	for left := p; len(left) > 0 && !t.stopped; {
		n := copy(t.window[t.n:], left)
		t.n += n
		left = left[n:]
		if t.n == window {
			t.scan(window - t.s.reach)
			t.shift()
		}
	}
	return len(p), nil
}

// Stop drops what is not scanned yet, and what is written later. Close then reports nothing and takes no time.
func (t *Stream) Stop() { t.stopped = true }

// Close scans what is left and clears the window.
func (t *Stream) Close() error {
	if t.window == nil {
		return nil
	}
	t.scan(t.n)
	if !t.stopped {
		t.pending.flush(t.n, t.report)
	}
	clear(t.window[:])
	windows.Put(t.window)
	t.window = nil
	return nil
}

// scan moves the automaton on to a position. The bytes after it are there for matchers, so that each sees the same as
// in one piece.
func (t *Stream) scan(to int) {
	for !t.stopped {
		found := false
		if t.i, t.state, found = t.s.next(t.window[:to], t.i, t.state); !found {
			// A match that waits keeps its part of the window: without this a window with no further prefix never moves on.
			t.stopped = !t.pending.flush(t.i-t.s.behind, t.report)
			return
		}
		t.s.matchAt(t.window[:t.n], t.i, t.state, &t.pending)
		t.stopped = !t.pending.flush(t.i-t.s.behind, t.report)
	}
}

func (t *Stream) report(m Match) bool {
	w := t.window[:t.n]
	return t.emit(Found{
		Rule: m.Rule, Offset: t.base + int64(m.Start), Secret: w[m.Start:m.End],
		Before: w[max(0, m.Start-around):m.Start], After: w[m.End:min(t.n, m.End+around)],
	})
}

// shift drops what neither the automaton, nor a matcher, nor a report needs again.
func (t *Stream) shift() {
	from := t.i
	if t.pending.n > 0 {
		from = min(from, t.pending.list[0].Start)
	}
	from = max(0, from-around-lookBehind-t.s.behind)
	copy(t.window[:], t.window[from:t.n])
	t.n -= from
	clear(t.window[t.n:])
	t.base += int64(from)
	t.i -= from
	t.pending.known.shift(from)
	for i := range t.pending.n {
		t.pending.list[i].Start -= from
		t.pending.list[i].End -= from
	}
}
