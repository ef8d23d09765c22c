package ui

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

// What a spreadsheet would run as a formula is a text, and what cannot be seen is visible.
func TestCSVCellsAreNoFormulas(t *testing.T) {
	for value, want := range map[any]string{
		"order.paid": "order.paid", "": "", "a=b": "a=b", `=HYPERLINK("https://evil.example","x")`: `'=HYPERLINK("https://` +
			`evil.example","x")`,
		"+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t'=1", "  =1": "'  =1", "\n=1": "'\n'=1",
		// In German and other languages ; separates cells, and quotes inside a cell count only at its start.
		"x;=1+1;y": "x;'=1+1;y", `x; "=1"`: `x; "'=1"`, "x\t@A1": "x\t'@A1", "a;b-c; d": "a;b-c; d",
		"＝1": "'＝1", "\r=1": `\r=1`, "a\u202eb": `a\u{202e}b`,
		strings.Repeat("x", 20<<10): strings.Repeat("x", 16<<10-3) + "…",
		nil:                         "", 12345678.0: "12345678", true: "true", false: "false", -5.0: "'-5",
	} {
		is.Equal(t, csvCell(gjson.ParseBytes(web.Encode(value))), want, "%.40q is the cell", value)
	}
}
