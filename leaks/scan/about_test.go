package scan

import (
	"github.com/eventrelay/relay/test/is"
	"strings"
	"testing"
)

// The page that the User-Agent names has the bounds of a scan and every path that scans look at.
func TestAboutNamesTheBounds(t *testing.T) {
	text := strings.Join(strings.Fields(string(About(DefaultBudget()))), " ")
	for _, want := range []string{
		"16 paths", "5 requests a second to a host and 4 at a time",
		"at most 50 pages and 300 other files, 64 MiB and 120 seconds",
		"it reads 5 MiB, of a source map 20 MiB", "at most 5 a day", "for 10 minutes", "_relay-challenge.",
		"/.well-known/relay-verify.txt",
	} {
		is.Has(t, text, want)
	}
	for _, p := range probes {
		is.Has(t, text, "<code>"+p.path+"</code>", "%s is not named", p.path)
	}
}
