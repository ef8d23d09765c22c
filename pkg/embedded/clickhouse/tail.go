package clickhouse

import (
	"io"
	"strings"
)

// tail passes writes on and keeps the last of them, for the error that says why
// a process ended. It is written to by one goroutine, and read after that.
type tail struct {
	forward io.Writer
	kept    []byte
}

// Write never fails, since the process that writes would die of it.
func (t *tail) Write(p []byte) (int, error) {
	const keep = 2 << 10
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-keep):]
	if t.forward != nil {
		_, _ = t.forward.Write(p)
	}
	return len(p), nil
}

// quote is what was kept, on one line, for the end of an error text.
func (t *tail) quote() string {
	text := strings.TrimSpace(string(t.kept))
	if text == "" {
		return ""
	}
	return ": " + strings.Join(strings.Fields(text), " ")
}
