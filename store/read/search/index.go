package search

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
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

// MatchesBody evaluates in this process the conditions that searchBody writes as SQL.
func MatchesBody(body []byte, terms []event.BodyMatch) bool {
	return event.ValidJSON(body) && !slices.ContainsFunc(terms, func(m event.BodyMatch) bool {
		return !matchScalar(lookup(gjson.ParseBytes(body), m.Members), m.Values)
	})
}

// lookup returns the value at a path. Of members with the same name the first counts.
func lookup(at gjson.Result, members []string) gjson.Result {
	for _, name := range members {
		var next gjson.Result
		place, err := strconv.ParseUint(name, 10, 31)
		at.ForEach(func(key, value gjson.Result) bool {
			switch {
			case at.IsObject() && key.Str == name, at.IsArray() && err == nil && place == 0:
				next = value
				return false
			}
			place--
			return true
		})
		at = next
	}
	return at
}

func matchScalar(at gjson.Result, values []string) bool {
	switch at.Type {
	case gjson.String:
		return slices.Contains(values, at.Str)
	case gjson.True, gjson.False:
		return slices.Contains(values, at.Raw)
	case gjson.Null:
		return at.Exists() && slices.Contains(values, at.Raw)
	case gjson.Number:
		n, ok := parseNumber(at.Raw)
		return slices.Contains(values, at.Raw) || ok && slices.ContainsFunc(values, func(v string) bool {
			m, ok := parseNumber(v)
			return ok && n.equal(m)
		})
	}
	return false
}
