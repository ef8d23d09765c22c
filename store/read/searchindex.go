package read

import (
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// minGram is how long a text must be for the index to say something, in bytes.
const minGram = 4

// hint appends conditions that only the text index looks at, one for each of a search: whatever has none of their texts
// does not match.
func addIndexHints(q *ch.Query, s *event.Search) {
	for _, m := range s.Header {
		lines := headerLines(m)
		for i := range lines {
			lines[i] = lines[i][1:] // nothing stands before the first
		}
		addIndexHint(q, lines, "")
	}
	if low := strings.ToLower(s.Text); low != "" && !strings.Contains(id.Event, low) {
		// Of the letters of other alphabets some are k, s and i in lower or upper case.
		folded := ""
		if strings.ContainsFunc(s.Text, func(r rune) bool { return r > 127 }) {
			folded = "kKsSiI"
		}
		within, starts := idPatterns(low)
		texts := []string{s.Text}
		for _, letters := range slices.Concat(within, starts) {
			texts = append(texts, letters[min(1, len(letters)):])
		}
		addIndexHint(q, texts, folded)
	}
	for _, m := range s.Body {
		for _, texts := range needles(m) {
			addIndexHint(q, texts, "")
		}
	}
}

// addIndexHint says that one of the texts is there, unless the index says nothing about one of them. Letters of folded
// may be written as others.
func addIndexHint(q *ch.Query, texts []string, folded string) {
	grams := make([]string, len(texts))
	for i, t := range texts {
		if grams[i] = longestASCII(t, folded); len(grams[i]) < minGram {
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

// longestASCII is the longest stretch of a text that the index has letter by letter.
func longestASCII(text, without string) (longest string) {
	for stretch := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r > 127 || strings.ContainsRune(without, r)
	}) {
		if len(stretch) > len(longest) {
			longest = stretch
		}
	}
	return longest
}
