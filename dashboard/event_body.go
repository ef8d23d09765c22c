package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// token is a part of a line of JSON. Class is that of the style sheet: k for a name, s for a string, d for a number, l
// for a literal; empty for punctuation.
type token struct{ Class, Text string }

// Largest part of a body that a page shows, in bytes. The whole body can be downloaded.
const (
	maxShownBody = 64 << 10
	maxShownHex  = 8 << 10
)

// bodyView is how a page shows a body.
type bodyView struct {
	As    string    // tree, raw or hex
	Lines [][]token // of a tree
	Text  string    // of raw and hex
	Cut   bool      // only the beginning is shown
	JSON  bool      // it can be shown as a tree
	Size  int       // in bytes
}

// newBodyView shows a body as it was asked for, or as its content suggests: JSON as a tree, other text raw, bytes in
// hexadecimal.
func newBodyView(body []byte, as string) bodyView {
	v := bodyView{As: as, Size: len(body)}
	v.JSON = len(body) <= maxShownBody && json.Valid(body) && utf8.Valid(body) && event.JSONDepth(body) <= web.MaxDepth
	if as != "raw" && as != "hex" {
		switch {
		case v.JSON:
			v.As = "tree"
		case utf8.Valid(body):
			v.As = "raw"
		default:
			v.As = "hex"
		}
	}
	switch v.As {
	case "tree":
		v.Lines = jsonLines(body)
	case "raw":
		v.Cut = len(body) > maxShownBody
		v.Text = string(body[:min(len(body), maxShownBody)])
	case "hex":
		v.Cut = len(body) > maxShownHex
		v.Text = hex.Dump(body[:min(len(body), maxShownHex)])
	}
	return v
}

// jsonLines indents a valid JSON text and splits it into coloured lines. Numbers and strings keep their bytes.
func jsonLines(body []byte) (lines [][]token) {
	var indented bytes.Buffer
	if json.Indent(&indented, body, "", "  ") != nil {
		return nil // the caller has checked the text
	}
	for line := range strings.Lines(indented.String()) {
		lines = append(lines, jsonTokens(strings.TrimSuffix(line, "\n")))
	}
	return lines
}

// jsonTokens splits one line of indented JSON.
func jsonTokens(line string) (tokens []token) {
	for line != "" {
		n, class := 0, ""
		switch c := line[0]; {
		case c == '"':
			n, class = stringEnd(line), "s"
			if strings.HasPrefix(line[n:], ":") {
				class = "k"
			}
		case c == '-' || c >= '0' && c <= '9':
			n, class = len(line)-len(strings.TrimLeft(line, "-+.0123456789eE")), "d"
		case c >= 'a' && c <= 'z':
			n, class = len(line)-len(strings.TrimLeft(line, "aeflnrstu")), "l"
		default:
			n = strings.IndexAny(line, `"-0123456789abcdefghijklmnopqrstuvwxyz`)
			if n < 0 {
				n = len(line)
			}
		}
		tokens = append(tokens, token{class, line[:n]})
		line = line[n:]
	}
	return tokens
}

// stringEnd returns the length of the JSON string that a line begins with.
func stringEnd(line string) int {
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(line)
}

// maxCurlBody bounds the body of a command, in bytes.
const maxCurlBody = 16 << 10

// curl returns a command that sends the event's body and headers to a local server; empty if the body is too large or
// not text. Headers of the connection are left out. The body is --data-raw: other options read a file if it begins
// with @.
func curl(e *eventDetail) string {
	body := e.bytes()
	isText := utf8.Valid(body) && bytes.IndexByte(body, 0) < 0
	if len(body) > maxCurlBody || !isText || e.PayloadErasedAt != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("curl -X " + quoteShell(e.Method) + " http://localhost:3000/")
	for _, h := range e.HeaderLines() {
		switch strings.ToLower(h[0]) {
		case "host", "content-length", "connection", "transfer-encoding", "expect", "accept-encoding":
			continue
		}
		b.WriteString(" \\\n  -H " + quoteShell(h[0]+": "+h[1]))
	}
	if len(body) > 0 {
		b.WriteString(" \\\n  --data-raw " + quoteShell(string(body)))
	}
	return b.String()
}

// quoteShell quotes a text for a POSIX shell. Characters that a terminal acts on when the command is pasted, such as
// the end of the line or of a paste, and invisible ones become escapes in $'...': the sender has chosen the text.
// Shells without $'...' take the escapes literally, so an apostrophe is an escape too: none ends the quotes there.
func quoteShell(text string) string {
	isUnsafe := func(r rune) bool { return r != '\n' && (r == '\t' || r == utf8.RuneError || isHidden(r)) }
	if !strings.ContainsFunc(text, isUnsafe) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == '\'' || r == '\\' || isUnsafe(r):
			for _, c := range []byte(text[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		default:
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String() + "'"
}
