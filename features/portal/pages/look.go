package pages

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/eventrelay/relay/dashboard/ui"
)

// rgb is a colour, each part from 0 to 1.
type rgb [3]float64

var (
	black, white = rgb{0, 0, 0}, rgb{1, 1, 1}
	// ofLight and ofDark are the surfaces of tokens.css on which an accent is hardest to read: --sunken.
	ofLight, ofDark = rgb{0.937, 0.945, 0.957}, rgb{0.11, 0.129, 0.153}
)

// look is the style sheet with the colour of the tenant's portal: of buttons as it is, and of links, tabs and focus as
// dark or light as text must be.
func look(v *ui.Visit) error {
	text := ""
	if n, err := strconv.ParseUint(cmp.Or(v.Portal.Look.Color, "#")[1:], 16, 32); err == nil {
		text = styleOf(rgb{float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255})
	}
	v.W.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, err := v.W.Write([]byte(text))
	return err
}

func styleOf(c rgb) string {
	on := white
	if c.contrast(black) > c.contrast(white) {
		on = black
	}
	light, lightBack := accentOn(c, ofLight, black)
	dark, darkBack := accentOn(c, ofDark, white)
	return fmt.Sprintf(":root{--solid:%s;--on-solid:%s;--link:light-dark(%s,%s);--link-bg:light-dark(%s,%s)}",
		c, on, light, dark, lightBack, darkBack)
}

// readable is the contrast that text needs (WCAG 2.2, 1.4.3), with some room for rounding.
const readable = 4.55

// accentOn returns the colour, mixed with as little of ink as makes it readable on a surface and on a tint of it.
func accentOn(c, surface, ink rgb) (accent, tint rgb) {
	for part := 0.0; ; part += 0.05 {
		accent = c.mix(ink, min(part, 1))
		tint = surface.mix(accent, 0.1)
		if part >= 1 || accent.contrast(surface) >= readable && accent.contrast(tint) >= readable {
			return accent, tint
		}
	}
}

// mix returns the colour with a part of another one.
func (c rgb) mix(other rgb, part float64) (mixed rgb) {
	for i := range c {
		mixed[i] = c[i] + (other[i]-c[i])*part
	}
	return mixed
}

// contrast is the contrast ratio of WCAG 2.2.
func (c rgb) contrast(other rgb) float64 {
	a, b := c.luminance(), other.luminance()
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

func (c rgb) luminance() float64 {
	linear := func(x float64) float64 {
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

func (c rgb) String() string {
	part := func(x float64) int { return int(math.Round(x * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", part(c[0]), part(c[1]), part(c[2]))
}
