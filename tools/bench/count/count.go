// Package count has the marks of events and a histogram of durations. Its memory is bounded however long a run is. Each
// posted event carries a mark: its run, its number in that run, and when it was due. The text of a mark has a fixed
// width, so that the load generator can overwrite it in a prepared request, and it consists of letters, digits and
// dots, so that it survives when the body is encoded again. Begin with Mark and Durations.
package count

import (
	"bytes"
	"time"
)

// Limits of a mark. Find ignores marks beyond them.
const (
	MaxRuns   = 256
	MaxNumber = 1 << 30 // events of a run
)

const (
	prefix     = "relaybench."
	runWidth   = 3
	numWidth   = 10
	timeWidth  = 19
	numOffset  = len(prefix) + runWidth + 1
	timeOffset = numOffset + numWidth + 1
)

// MarkWidth is the length of a mark's text, in bytes.
const MarkWidth = timeOffset + timeWidth

// Mark identifies an event.
type Mark struct {
	Run    int
	Number int64
	Due    time.Time // when the event was due to be posted
}

// Put writes a mark into the first MarkWidth bytes of b.
func (m Mark) Put(b []byte) {
	_ = b[MarkWidth-1]
	copy(b, prefix)
	digits(b[len(prefix):len(prefix)+runWidth], int64(m.Run))
	b[numOffset-1] = '.'
	digits(b[numOffset:numOffset+numWidth], m.Number)
	b[timeOffset-1] = '.'
	digits(b[timeOffset:timeOffset+timeWidth], m.Due.UnixNano())
}

func digits(b []byte, n int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

// Find returns the first mark in b, false if there is none.
func Find(b []byte) (Mark, bool) {
	i := bytes.Index(b, []byte(prefix))
	if i < 0 || len(b) < i+MarkWidth {
		return Mark{}, false
	}
	b = b[i : i+MarkWidth]
	run, ok1 := number(b[len(prefix) : len(prefix)+runWidth])
	n, ok2 := number(b[numOffset : numOffset+numWidth])
	at, ok3 := number(b[timeOffset:])
	if !ok1 || !ok2 || !ok3 || run >= MaxRuns || n >= MaxNumber {
		return Mark{}, false
	}
	return Mark{Run: int(run), Number: n, Due: time.Unix(0, at)}, true
}

func number(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// String returns the text of the mark.
func (m Mark) String() string {
	var b [MarkWidth]byte
	m.Put(b[:])
	return string(b[:])
}
