package main

import (
	"fmt"
	"html"
	"strings"
)

// palettes are colours of the dashboard by scheme, as properties that style reads.
var palettes = map[string]string{
	"light": ":root{--bg:#fff;--line:#d5dae0;--ink:#14181d;--soft:#4c5661;--edge:#858e99;--plainb:#eff1f4;" +
		"--link:#1d55c4;--linkb:#e9f0fd;--ok:#176c3d;--okb:#e3f3e9;--bad:#b0241c;--badb:#fdeae8;" +
		"--wait:#875000;--waitb:#fcf0d9;--held:#6a3fae;--heldb:#f0eafb}",
	"dark": ":root{--bg:#161a1f;--line:#272d35;--ink:#e7eaee;--soft:#a9b3be;--edge:#6a7480;--plainb:#242a31;" +
		"--link:#86b1ff;--linkb:#18273f;--ok:#71c994;--okb:#132d1e;--bad:#ff958d;--badb:#3c1917;" +
		"--wait:#e8b25c;--waitb:#33270f;--held:#c0a3f4;--heldb:#2a2042}",
}

const style = "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif;fill:var(--soft)}" +
	".t{font-weight:600;fill:var(--ink)}.h{font-weight:600;font-size:15px;fill:var(--ink)}.s{font-size:12px}" +
	".m{text-anchor:middle}.e{text-anchor:end}.bg{fill:var(--bg);stroke:var(--line)}.grid{stroke:var(--line)}" +
	".group{fill:none;stroke:var(--edge);stroke-dasharray:4 4}.back{stroke-dasharray:5 4}.both{marker-start:url(#a)}" +
	".arrow{fill:none;stroke:var(--edge);stroke-width:1.5;marker-end:url(#a)}.head{fill:var(--edge)}" +
	".plain{fill:var(--plainb);stroke:var(--edge)}.link{fill:var(--linkb);stroke:var(--link)}" +
	".ok{fill:var(--okb);stroke:var(--ok)}.bad{fill:var(--badb);stroke:var(--bad)}" +
	".wait{fill:var(--waitb);stroke:var(--wait)}.held{fill:var(--heldb);stroke:var(--held)}" +
	".bar1{fill:var(--link)}.bar2{fill:var(--edge)}.dot{fill:var(--link);stroke:var(--bg);stroke-width:2}"

// picture collects the elements of a drawing. Its classes are those of style.
type picture struct {
	width, height int
	title         string // for people who do not see it
	body          strings.Builder
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n", args...) }

func (p *picture) svg(palette string) string {
	title := html.EscapeString(p.title)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img" `+
		`aria-label="%s"><title>%[3]s</title><style>%s%s</style>`+"\n"+`<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" `+
		`markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/></marker>`+"\n"+
		`<rect class="bg" x=".5" y=".5" width="%d" height="%d" rx="10"/>`+"\n%s</svg>\n",
		p.width, p.height, title, palette, style, p.width-1, p.height-1, p.body.String())
}

// text writes lines of text below each other.
func (p *picture) text(x, y int, class string, lines ...string) {
	for i, line := range lines {
		p.add(`<text x="%d" y="%d" class="%s">%s</text>`, x, y+17*i, class, html.EscapeString(line))
	}
}

// box is a box with a name and lines in its middle.
func (p *picture) box(x, y, width, height int, class, name string, lines ...string) {
	p.add(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="6"/>`, class, x, y, width, height)
	first := y + height/2 + 5 - 17*len(lines)/2
	p.text(x+width/2, first, "m t", name)
	p.text(x+width/2, first+17, "m s", lines...)
}

// group frames boxes.
func (p *picture) group(x, y, width, height int, name string) {
	p.add(`<rect class="group" x="%d" y="%d" width="%d" height="%d" rx="8"/>`, x, y, width, height)
	p.text(x+14, y+22, "t", name)
}

// arrows draws an arrow along each SVG path; class "back" breaks the line, "both" gives it two heads.
func (p *picture) arrows(class string, paths ...string) {
	for _, path := range paths {
		p.add(`<path class="arrow %s" d="%s"/>`, class, path)
	}
}
