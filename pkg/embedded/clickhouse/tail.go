package clickhouse

import (
	"io"
	"strings"
)

// tail is a writer that forwards everything and keeps the last 2 KiB, for the error that says why a process ended. One
// goroutine writes; it is read after that.
type tail struct {
	forward io.Writer
	kept    []byte
}

// Write never fails: an error would kill the process whose output it is.
func (t *tail) Write(p []byte) (int, error) {
	const keep = 2 << 10
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-keep):]
	if t.forward != nil {
		_, _ = t.forward.Write(p)
	}
	return len(p), nil
}

// quote returns the kept output on one line, to be appended to an error message; empty if there is none.
func (t *tail) quote() string {
	text := strings.TrimSpace(string(t.kept))
	if text == "" {
		return ""
	}
	return ": " + strings.Join(strings.Fields(text), " ")
}
