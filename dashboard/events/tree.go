package events

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
)

// Bounds of a tree: the fewest lines that a fold hides, how many values lead to a search, and the bytes of such a value
// and of its path.
const (
	minFolded = 3
	maxLinks  = 300
	maxLinked = 200
)

// secretName matches names of fields whose values belong in no address of a page.
var secretName = regexp.MustCompile(`(?i)token|secret|passw|api_?key|authorization|signature|credential`)

// sameValueSince is how far back the events with the same value are searched.
const sameValueSince = "7d"

// container is an object or array of a JSON text that is open at a line.
type container struct {
	line    int // where it begins
	isArray bool
	n       int    // elements so far
	path    string // of its place, as the search takes it
	unknown bool   // the search has no words for that place
}

// jsonLines indents a valid JSON text and splits it into coloured lines. Numbers and strings keep their bytes.
func jsonLines(body []byte) (lines []bodyLine) {
	var indented bytes.Buffer
	if json.Indent(&indented, body, "", "  ") != nil {
		return nil // the caller has checked the text
	}
	var open []container
	links := 0
	for text := range strings.Lines(indented.String()) {
		text = strings.TrimSuffix(text, "\n")
		line := bodyLine{Tokens: jsonTokens(text)}
		inside := strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(inside, "}"), strings.HasPrefix(inside, "]"):
			c := open[len(open)-1]
			open = open[:len(open)-1]
			if len(open) > 0 && len(lines)-c.line > minFolded {
				lines[c.line].Opens, line.Closes = true, true
			}
		case strings.HasSuffix(inside, "{"), strings.HasSuffix(inside, "["):
			c := container{line: len(lines), isArray: strings.HasSuffix(inside, "[")}
			if len(open) > 0 {
				c.path, c.unknown = open[len(open)-1].place(line.Tokens)
			}
			open = append(open, c)
		case len(open) > 0:
			if path, unknown := open[len(open)-1].place(line.Tokens); !unknown && links < maxLinks {
				if line.link(path); line.Path != "" {
					links++
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// place returns the path of the next element of the container, which begins with the tokens.
func (c *container) place(tokens []token) (path string, unknown bool) {
	name := strconv.Itoa(c.n)
	c.n++
	if !c.isArray {
		for _, x := range tokens {
			if x.Class == "k" && json.Unmarshal([]byte(x.Text), &name) == nil {
				break
			}
		}
	}
	if c.unknown || name == "" || strings.Contains(name, ".") || c.path == "" && strings.HasPrefix(name, "$") {
		return "", true
	}
	return strings.TrimPrefix(c.path+"."+name, "."), false
}

// link makes a string or number lead to the events that have it at the same place.
func (l *bodyLine) link(path string) {
	for _, x := range l.Tokens {
		value := x.Text
		if x.Class == "s" && json.Unmarshal([]byte(x.Text), &value) != nil {
			continue
		}
		if (x.Class == "s" || x.Class == "d") && value != "" && len(value) <= maxLinked && len(path) <= maxLinked &&
			!secretName.MatchString(path) {
			l.Path = ui.WithQuery(ui.EventsPath, url.Values{"body_path": {path}, "body_value": {value},
				"since": {sameValueSince}})
		}
	}
}
