package reference

import (
	"cmp"
	"html"
	"html/template"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	bold     = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	link     = regexp.MustCompile(`\[([^\]]+)\]\(((?:https?://|[/#])[^)\s]+)\)`)
	fragment = regexp.MustCompile(`href="(?:/docs)?#([^"]+)"`)
	page     = regexp.MustCompile(`<code>(/docs/[a-z]+|/openapi\.(?:json|yaml))</code>`)
)

// markdown draws the Markdown that descriptions use: paragraphs, lists, code, bold text and links.
func markdown(text string) template.HTML {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		items := strings.Split("\n"+block, "\n- ")
		if lead := strings.TrimSpace(items[0]); lead != "" {
			b.WriteString("<p>" + inline(lead) + "</p>")
		}
		if len(items) > 1 {
			b.WriteString("<ul><li>" + inline(strings.Join(items[1:], "\x00")) + "</ul>")
		}
	}
	return template.HTML(strings.ReplaceAll(b.String(), "\x00", "<li>")) //nolint:gosec // inline has escaped it
}

// relink gives links to an operation or a schema the page that it is on.
func (d *spec) relink(text template.HTML) template.HTML {
	return template.HTML(fragment.ReplaceAllStringFunc(string(text), func(link string) string { //nolint:gosec // escaped
		if place := d.places[fragment.FindStringSubmatch(link)[1]]; place != "" {
			return `href="` + place + `"`
		}
		return link
	}))
}

func inline(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if part = html.EscapeString(part); i%2 == 1 {
			b.WriteString("<code>" + part + "</code>")
			continue
		}
		part = bold.ReplaceAllString(part, "<strong>$1</strong>")
		b.WriteString(link.ReplaceAllString(part, `<a href="$2">$1</a>`))
	}
	return page.ReplaceAllString(b.String(), `<a href="$1">$0</a>`)
}

// typeOf names the type of a schema; the name of an object of the document is a link.
func (d *spec) typeOf(s *schema) string {
	if s.Ref != "" && d.isObject(s) {
		name := path.Base(s.Ref)
		return `<a href="` + d.places["schema-"+name] + `">` + name + `</a>`
	}
	s = d.target(s)
	var names []string
	for _, name := range s.Types {
		if name == "array" && s.Items != nil {
			name = "array of " + d.typeOf(s.Items)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		for _, part := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
			names = append(names, strings.Split(d.typeOf(part), " or ")...)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { // null is the last
		return cmp.Compare(strings.Count(a, "null"), strings.Count(b, "null"))
	})
	return cmp.Or(strings.Join(slices.Compact(names), " or "), "any")
}

// bounds says which values a schema allows, as HTML.
func (d *spec) bounds(s *schema) (texts []string) {
	if s = d.target(s); d.isObject(s) {
		return nil
	}
	if alternatives := s.alternatives(); len(s.Types) == 0 && len(alternatives) == 1 {
		return d.bounds(alternatives[0])
	}
	add := func(least, most *float64, unit string) {
		if unit != "" && least != nil && *least == 0 {
			least = nil // there are no fewer
		}
		switch {
		case least != nil && most != nil:
			texts = append(texts, number(least)+" to "+number(most)+unit)
		case most != nil:
			texts = append(texts, "at most "+number(most)+unit)
		case least != nil && *least == 1:
			texts = append(texts, "at least 1"+strings.TrimSuffix(unit, "s"))
		case least != nil:
			texts = append(texts, "at least "+number(least)+unit)
		}
	}
	add(s.MinLength, s.MaxLength, " characters")
	add(s.MinItems, s.MaxItems, " values")
	add(s.Minimum, s.Maximum, "")
	if s.Format != "" {
		texts = append(texts, "format "+html.EscapeString(s.Format))
	}
	if s.Pattern != "" && len(s.Pattern) <= longestPattern {
		texts = append(texts, "matches <code>"+html.EscapeString(s.Pattern)+"</code>")
	}
	if values := slices.Concat(s.Enum, s.Extensible); len(values) > 0 {
		texts = append(texts, "one of "+codes(values))
	}
	if !s.Const.IsZero() {
		texts = append(texts, "always "+codes([]yaml.Node{s.Const}))
	}
	if !s.Default.IsZero() {
		texts = append(texts, "default "+codes([]yaml.Node{s.Default}))
	}
	if s.Items != nil {
		for _, text := range d.bounds(s.Items) {
			texts = append(texts, "each "+text)
		}
	}
	return texts
}

// longestPattern is the length up to which a regular expression helps a reader.
const longestPattern = 40

func number(n *float64) string { return strconv.FormatFloat(*n, 'f', -1, 64) }

func codes(values []yaml.Node) string {
	var texts []string
	for _, v := range values {
		texts = append(texts, "<code>"+html.EscapeString(cmp.Or(v.Value, `""`))+"</code>")
	}
	return strings.Join(texts, ", ")
}
