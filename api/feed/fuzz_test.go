package feed_test

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/api/feed"
)

// A cursor that is accepted means the same after it is written again.
func FuzzCursor(f *testing.F) {
	f.Add(feed.Cursor{At: time.UnixMilli(1_700_000_000_123), Next: map[int32]int64{0: 0, 7: 1 << 40}}.Encode("ep_a"))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := feed.ParseCursor("ep_a", text)
		if err != nil {
			return
		}
		again, err := feed.ParseCursor("ep_a", c.Encode("ep_a"))
		if err != nil || !again.At.Equal(c.At) || len(again.Next) != len(c.Next) {
			t.Fatalf("%q is %v, and written again %v (%v)", text, c, again, err)
		}
		for p, next := range c.Next {
			if p < 0 || next < 0 || again.Next[p] != next {
				t.Fatalf("%q has offset %d of partition %d", text, next, p)
			}
		}
	})
}
