package rules

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	word = regexp.MustCompile(`\w+`)
	// identifier is a name of a package, such as config.Kind, or a word with a capital inside, such as textWords.
	identifier = regexp.MustCompile(
		`\b(?:([a-z]+)\.([A-Z]\w+)|([A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|Err[A-Z]\w*))\b`)
	// withSlash are paths and URLs, whose parts are names of others.
	withSlash = regexp.MustCompile(`\S+/\S+`)
)

// foreignWords are what comments name besides the code: products, and the code of other languages and projects.
var foreignWords = strings.Fields(`AggregateFunction ConnMaxLifetime CoreDNS ErrorCodes HubSpot MjA MjE MurmurHash2
	NativeWriter OpenSSH OpenSSL PreferLagFn PromQL PyPI SpanProcessor SplitFunc TwiML W3C WebSub WooCommerce
	WriteBufferFromHTTPServerResponse chDB createHmac macOS recordsPerReplica x2F`)

// names are the identifiers in the code of each directory.
func names(all []source) map[string]map[string]bool {
	used := map[string]map[string]bool{}
	for _, s := range all {
		if used[s.dir] == nil {
			used[s.dir] = map[string]bool{}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used[s.dir][id.Name] = true
			}
			return true
		})
	}
	return used
}

// textWords are the words in the literals of all code.
func textWords(all []source) map[string]bool {
	words := map[string]bool{}
	for _, s := range all {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				for _, w := range word.FindAllString(lit.Value, -1) {
					words[w] = true
				}
			}
			return true
		})
	}
	return words
}

// A name in a comment is in the code too: an identifier, of that package if it is qualified, or a word of a text.
// An error without a package is one of the package of the comment.
func TestCommentsNameWhatExists(t *testing.T) {
	all := sources(t)
	used, known, dirs := names(all), textWords(all), readCode(t).packages
	for _, in := range used {
		maps.Copy(known, in)
	}
	for _, w := range foreignWords {
		known[w] = true
	}
	for _, s := range all {
		for _, group := range s.file.Comments {
			text := withSlash.ReplaceAllString(group.Text(), "")
			for _, m := range identifier.FindAllStringSubmatch(text, -1) {
				in, name := dirs[m[1]], m[2]+m[3]
				if m[1] == "" && errorName.MatchString(name) {
					in = []string{s.dir}
				}
				exists := known[name] || m[1] == "" && known[strings.TrimSuffix(name, "s")] || testName.MatchString(name)
				if exists && len(in) > 0 {
					exists = slices.ContainsFunc(in, func(dir string) bool { return used[dir][name] || within(dir, "test") })
				}
				if !exists {
					t.Errorf("%s: a comment names %s, which does not exist", s.fset.Position(group.Pos()), m[0])
				}
			}
		}
	}
}
