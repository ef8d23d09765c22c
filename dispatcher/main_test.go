package dispatcher

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// Every test that the package comment names for an invariant exists, here or in a folder below.
func TestInvariantsNameTheirTests(t *testing.T) {
	doc := must.Get(os.ReadFile("dispatcher.go"))(t)
	var files []string
	for _, pattern := range []string{"*_test.go", "lane/*_test.go", "destination/webhook/*_test.go"} {
		found := must.Get(filepath.Glob(pattern))(t)
		files = append(files, found...)
	}
	var tests strings.Builder
	for _, f := range files {
		text := must.Get(os.ReadFile(f))(t)
		tests.Write(text)
	}
	head, _, _ := strings.Cut(string(doc), "\npackage ")
	names := regexp.MustCompile(`Test\w+`).FindAllString(head, -1)
	if len(names) < 13 {
		t.Errorf("the package comment names %d tests", len(names))
	}
	for _, name := range names {
		is.Has(t, tests.String(), "func "+name+"(", "%s does not exist", name)
	}
}
