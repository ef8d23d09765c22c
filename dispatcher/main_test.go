package dispatcher

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

// Every test that the package comment names for an invariant exists, here or in a folder below.
func TestInvariantsNameTheirTests(t *testing.T) {
	doc, err := os.ReadFile("dispatcher.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{"*_test.go", "lane/*_test.go", "destination/webhook/*_test.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	var tests strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	head, _, _ := strings.Cut(string(doc), "\npackage ")
	names := regexp.MustCompile(`Test\w+`).FindAllString(head, -1)
	if len(names) < 13 {
		t.Errorf("the package comment names %d tests", len(names))
	}
	for _, name := range names {
		if !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("%s does not exist", name)
		}
	}
}
