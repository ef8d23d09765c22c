package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/features/demo/shop"
	"github.com/eventrelay/relay/test/is"
)

// The story says what happens, what comes next, and what is to be done.
func TestSteps(t *testing.T) {
	for _, x := range []struct {
		age    time.Duration
		failed int
		known  bool
		want   string // the icons
	}{
		{time.Second, 0, true, "delivered pending pending pending"},
		{shop.Works, 0, true, "delivered failed pending pending"},
		{shop.Works + shop.Broken, 0, true, "delivered delivered delivered pending"}, // the last outcomes come
		{shop.Works + shop.Broken, 44, true, "delivered delivered delivered recover"},
		{shop.Works + shop.Broken + settles, 44, false, "delivered delivered delivered pending"},
		{shop.Works + shop.Broken + settles, 0, true, "delivered delivered delivered delivered"},
	} {
		var icons []string
		for _, s := range steps(x.age, time.Now(), x.failed, x.known) {
			icons = append(icons, s.Icon)
			is.Equal(t, !s.At.IsZero(), s.Icon == "pending" && s.Title != "You recover what failed", "%s has a time", s.Title)
		}
		is.Equal(t, strings.Join(icons, " "), x.want, "after %v, %d failed", x.age, x.failed)
	}
	text := steps(shop.Works+shop.Broken, time.Now(), 44, true)[2].Text
	is.Has(t, text, ui.Plural(44, "event was", "events were")+" given up", text)
}
