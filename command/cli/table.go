package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is a list for people: aligned columns below a header. The first word in the column STATE has a colour.
type Table struct {
	rows [][]string
}

// NewTable returns a table with this header.
func NewTable(header ...string) *Table { return &Table{rows: [][]string{header}} }

// Row adds a row. What others wrote cannot move the cursor of a terminal.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = Printable(fmt.Sprint(cell))
	}
	t.rows = append(t.rows, row)
}

const gap = "  "

// Print writes the table. The last cell of a row may be wider than its column.
func (t *Table) Print(w io.Writer, color bool) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row[:max(len(row)-1, 0)] {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	state := slices.Index(t.rows[0], "STATE")
	for n, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0))
			if i == state && n > 0 {
				cell = Paint(color, cell)
			}
			line.WriteString(cell + pad + gap)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// Colours of the first word of a state.
const (
	green = "\x1b[32m"
	amber = "\x1b[33m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

var colors = map[string]string{
	"ok": green, "active": green, "right": green, "created": green, "grown": green, "fixed": green,
	"warn": amber, "unknown": amber, "expired": amber, "not_set": amber,
	"fail": red, "revoked": red, "differs": red, "refused": red, "cannot": red,
}

// Paint returns a state with the colour of its first word, if it has one.
func Paint(color bool, state string) string {
	word, rest, more := strings.Cut(state, " ")
	if more {
		rest = " " + rest
	}
	if escape := colors[strings.Trim(word, ":;,")]; color && escape != "" {
		return escape + word + plain + rest
	}
	return state
}

// WantsColor reports whether states that are printed to a stream have colours: on a terminal, or where CLICOLOR_FORCE
// or FORCE_COLOR ask for them, but never with NO_COLOR (no-color.org) or TERM=dumb.
func WantsColor(getenv func(string) string, stream any) bool {
	asked := func(name string) bool { return getenv(name) != "" && getenv(name) != "0" }
	if getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" {
		return false
	}
	return asked("CLICOLOR_FORCE") || asked("FORCE_COLOR") || IsTerminal(stream)
}
