package search

import (
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// minGram is the shortest text, in bytes, that can be looked up in the index.
const minGram = 4

// addIndexHints appends an indexHint for each term of a search. Only the text index evaluates it: it excludes granules
// that contain none of the term's texts.
func addIndexHints(q *ch.Query, s *event.Search) {
	for _, m := range s.Header {
		lines := headerLines(m)
		for i := range lines {
			lines[i] = lines[i][1:] // without the line break: the first line has none before it
		}
		addIndexHint(q, lines, "")
	}
	if low := strings.ToLower(s.Text); low != "" && !strings.Contains(id.Event, low) {
		// JSON may write these characters as escapes. Some non-ASCII letters fold to k, s or i, so a text with such letters
		// is looked up without its k, s and i.
		rewritten := escapedASCII
		if strings.ContainsFunc(s.Text, func(r rune) bool { return r > 127 }) {
			rewritten += "kKsSiI"
		}
		within, starts := idPatterns(low)
		texts := []string{s.Text}
		for _, letters := range slices.Concat(within, starts) {
			texts = append(texts, letters[min(1, len(letters)):]) // the index has another first letter, see schema.IndexedText
		}
		addIndexHint(q, texts, rewritten)
	}
	for _, m := range s.Body {
		for _, texts := range needles(m) {
			addIndexHint(q, texts, "")
		}
	}
}

// addIndexHint appends the condition that one of the texts occurs. It appends nothing when one of them has no part that
// the index can look up. The characters in rewritten may be written as other ones, so they are not looked up.
func addIndexHint(q *ch.Query, texts []string, rewritten string) {
	grams := make([]string, len(texts))
	for i, t := range texts {
		if grams[i] = longestASCII(t, rewritten); len(grams[i]) < minGram {
			return
		}
	}
	for i, t := range grams {
		if i == 0 {
			q.Add(" AND indexHint(")
		} else {
			q.Add(" OR ")
		}
		q.Add(schema.IndexedText).Add(" LIKE ").Literal("%" + likeEscaper.Replace(strings.ToLower(t)) + "%")
	}
	q.Add(")")
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

// longestASCII returns the longest run of ASCII characters in a text, without the characters in without.
func longestASCII(text, without string) (longest string) {
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r > 127 || strings.ContainsRune(without, r)
	}) {
		if len(run) > len(longest) {
			longest = run
		}
	}
	return longest
}
