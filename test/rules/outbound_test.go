package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// opensConnections matches what opens connections or looks up names.
var opensConnections = regexp.MustCompile(`\b(egress\.(NewTransport|NewOperatorDialer|NewResolver)|` +
	`(kgo|gomail|redis|mail)\.NewClient|clickhouse\.Open|minio\.New|(net|tls)\.Dial\w*|\(net\.Dialer|` +
	`net\.(Resolver\{|DefaultResolver|Lookup\w+)|` +
	`http\.(Client\{|Transport\{|(Get|Post|PostForm|Head)\(|Default(Client|Transport)))`)

// docs/operate/security.md names each file of the program that opens connections, and no other.
func TestOutboundConnectionsAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile("docs/operate/security.md"))(t)
	_, section, found := strings.Cut(string(text), "\n## What leaves your machines\n")
	if !found {
		t.Fatal("docs/operate/security.md has no part about what leaves the machines")
	}
	var documented []string
	for _, name := range regexp.MustCompile("`([\\w/]+\\.go)`").FindAllStringSubmatch(section, -1) {
		documented = append(documented, name[1])
	}
	comment := regexp.MustCompile(`(?m)^\s*//.*$`)
	// What only tests, benchmarks and the build use, and what only checks settings.
	apart := regexp.MustCompile(`^(test|tools/bench|deploy|bin|sdk)/|_test\.go$|/testdata/|` +
		`^command/settings_validate\.go$`)
	for _, pattern := range []string{"*.go", "*/*.go", "*/*/*.go", "*/*/*/*.go"} {
		files := must.Get(filepath.Glob(pattern))(t)
		for _, name := range files {
			source := must.Get(os.ReadFile(name))(t)
			at := slices.Index(documented, name)
			opens := opensConnections.Find(comment.ReplaceAll(source, nil))
			switch {
			case apart.MatchString(name):
			case opens != nil && at < 0:
				t.Errorf("%s opens connections (%s), but docs/operate/security.md does not name it: say what leaves the machine, "+
					"and where to", name, opens)
			case opens == nil && at >= 0:
				t.Errorf("docs/operate/security.md names %s, which opens no connection", name)
			}
			if at >= 0 {
				documented = slices.Delete(documented, at, at+1)
			}
		}
	}
	if len(documented) > 0 {
		t.Errorf("docs/operate/security.md names %v, which are missing, or named twice", documented)
	}
}
