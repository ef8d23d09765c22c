package pages

import (
	"fmt"
	"testing"

	"github.com/eventrelay/relay/test/is"
)

// Links and tabs are readable in whatever colour a tenant's portal has, on light and on dark pages.
func TestAccentsAreReadable(t *testing.T) {
	for n := range 6 * 6 * 6 {
		c := rgb{float64(n/36) / 5, float64(n/6%6) / 5, float64(n%6) / 5}
		for _, x := range []struct{ surfaces []rgb }{
			{[]rgb{ofLight, white, {0.965, 0.969, 0.976}}}, {[]rgb{ofDark, {0.059, 0.071, 0.086}, {0.086, 0.102, 0.122}}},
		} {
			ink := black
			if x.surfaces[0] == ofDark {
				ink = white
			}
			accent, tint := accentOn(c, x.surfaces[0], ink)
			for _, surface := range append(x.surfaces, tint) {
				if got := accent.contrast(surface); got < 4.5 {
					t.Errorf("%s as %s on %s: %.2f", c, accent, surface, got)
				}
			}
		}
	}
	accent, _ := accentOn(rgb{0.043, 0.431, 0.31}, ofLight, black)
	is.Equal(t, fmt.Sprint(accent), "#0b6e4f", "a readable colour stays")
	is.Equal(t, fmt.Sprintf("%.2f", black.contrast(white)), "21.00")
}
