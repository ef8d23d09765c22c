package conflog

import (
	"testing"
	"time"
)

// Two processes under one name are noticed while both run; a restart is none.
func TestTwoProcessesUnderOneName(t *testing.T) {
	const life = 5 * time.Second
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	beat := func(p *peers, boot string, ms int, leaving bool) {
		p.record(heartbeat{Node: "a", Boot: boot, At: at(ms), Leaving: leaving}, at(ms), life)
	}
	var restarted, both peers
	beat(&restarted, "1", 0, false)
	beat(&restarted, "2", 500, false)
	beat(&restarted, "1", 0, false)  // the last heartbeat of the ended process, appended again
	beat(&restarted, "1", 600, true) // and its farewell
	if restarted.isShared("a", at(700), life) {
		t.Error("a restart counts as two processes")
	}
	beat(&both, "1", 0, false)
	beat(&both, "2", 250, false)
	beat(&both, "1", 500, false)
	if !both.isShared("a", at(600), life) || both.isShared("b", at(600), life) {
		t.Error("two processes under one name are not noticed")
	}
	if both.isShared("a", at(600).Add(life), life) {
		t.Error("they are still reported after both have ended")
	}
	for i := range 100 {
		beat(&both, string(rune('A'+i)), 10_000+i*6000, false)
	}
	if len(both.replaced) > 2 {
		t.Errorf("%d processes are remembered", len(both.replaced))
	}
}
