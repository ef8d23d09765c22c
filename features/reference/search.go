package reference

import (
	"cmp"
	"html"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	api "github.com/eventrelay/relay/api/frame"
)

const (
	// maxQuery bounds what a search compares, in bytes, and maxWords in words.
	maxQuery, maxWords = 100, 8
	// maxResults bounds an answer, and maxOfPage its results on one page.
	maxResults, maxOfPage = 30, 3
	// excerptLength is how much of the text a result shows, in bytes.
	excerptLength = 220
)

// section is what a search finds: a heading of a document with the text below it, or an operation.
type section struct {
	Path, Page, Title string
	text              string
	page, title, body string  // in lower case
	weight            float64 // readers look for guides first
}

func newSection(path, page, title, text string, weight float64) section {
	text = strings.Join(strings.Fields(text), " ")
	return section{path, page, title, text, strings.ToLower(page), strings.ToLower(title), strings.ToLower(text), weight}
}

// result is a section with the part of its text that has the words.
type result struct {
	section
	Excerpt template.HTML
	score   float64
}

// searchPage is what the template search draws.
type searchPage struct {
	*view
	Path, Title, Query string
	Results            []result
}

// addSearch adds the page that searches all others.
func (v *view) addSearch(to map[string]*api.Page, all []*documentPage) {
	index := sync.OnceValues(func() ([]section, error) { return v.index(all) })
	to[searchPath] = &api.Page{Draw: func(r *http.Request) (*api.Page, error) {
		sections, err := index()
		if err != nil {
			return nil, err
		}
		query := r.URL.Query().Get("q")
		query = strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")
		return v.page("search", searchPage{v, searchPath, "Search", query, search(sections, query)})
	}}
}

var (
	sectionHeading = regexp.MustCompile(`(?s)<h[1-4] id="([^"]+)">(.*?) <a class="here"`)
	blockEnd       = regexp.MustCompile(`<figcaption>.*?</figcaption>|</(?:p|li|t[dh]|h\d|pre)>`)
)

// index lists the sections of all documents, and the operations and error types.
func (v *view) index(all []*documentPage) (sections []section, err error) {
	for _, d := range all {
		drawn, err := d.render()
		if err != nil {
			return nil, err
		}
		weight := 1.0
		if strings.HasPrefix(d.file, "design/") || strings.HasPrefix(d.file, "releases/") {
			weight = 0.5
		}
		body := string(drawn.Body)
		found := sectionHeading.FindAllStringSubmatchIndex(body, -1)
		for i, m := range found {
			end := len(body)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			place := d.Path + "#" + body[m[2]:m[3]]
			if i == 0 {
				place = d.Path
			}
			_, below, _ := strings.Cut(body[m[1]:end], "#</a>")
			below = blockEnd.ReplaceAllString(below, " ")
			sections = append(sections, newSection(place, d.Title, plain(body[m[4]:m[5]]), plain(below), weight))
		}
	}
	for _, t := range v.Tags {
		for _, o := range t.Operations {
			about := o.Method + " " + o.Path + " " + plain(string(markdown(o.Description)))
			sections = append(sections, newSection(t.Path()+"#"+o.ID, "API: "+t.Name, o.Summary, about, 1))
		}
	}
	for _, e := range errorTypes {
		sections = append(sections, newSection(errorsPath+"#"+e.kind, "Error types", e.kind, e.text, 1))
	}
	return sections, nil
}

// words are those of a query, in lower case.
func words(query string) []string {
	all := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '.' && r != '/'
	})
	for i := range all {
		all[i] = strings.Trim(all[i], "./")
	}
	all = slices.DeleteFunc(all, func(w string) bool { return w == "" })
	return all[:min(len(all), maxWords)]
}

// search returns the sections with most of the words, the best first: those in titles count most, then those in
// headings, then those in the text.
func search(sections []section, query string) (found []result) {
	terms := words(query)
	if len(terms) == 0 {
		return nil
	}
	for _, s := range sections {
		var score float64
		has := 0
		for _, term := range terms {
			page, title, body := match(s.page, term), match(s.title, term), match(s.body, term)
			if page+title+body == 0 {
				continue
			}
			has++
			if !strings.Contains(s.Path, "#") { // the top of a page
				page *= 3
			}
			score += 3*page + 6*title + body + 0.3*float64(min(strings.Count(s.body, term), 5))
		}
		if has > 0 {
			share := float64(has) / float64(len(terms))
			found = append(found, result{section: s, score: score * s.weight * share * share * share})
		}
	}
	slices.SortStableFunc(found, func(a, b result) int { return cmp.Compare(b.score, a.score) })
	ofPage := map[string]int{}
	found = slices.DeleteFunc(found, func(r result) bool {
		ofPage[r.Page]++
		return ofPage[r.Page] > maxOfPage
	})
	found = found[:min(len(found), maxResults)]
	for i := range found {
		found[i].Excerpt = excerpt(found[i].section, terms)
	}
	return found
}

// match says how well a word stands in a text: 0 not, 1 within a word, 2 at its beginning, 3 as a whole word.
func match(text, term string) (best float64) {
	for at := 0; best < 3; {
		i := strings.Index(text[at:], term)
		if i < 0 {
			break
		}
		at += i + len(term)
		value := 1.0
		if begins := at == len(term) || !isWord(text[at-len(term)-1]); begins {
			value = 2
			if at == len(text) || !isWord(text[at]) {
				value = 3
			}
		}
		best = max(best, value)
	}
	return best
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80
}

// excerpt is the text around the first of the words, with all of them marked.
func excerpt(s section, terms []string) template.HTML {
	at := len(s.body)
	for _, term := range terms {
		if i := strings.Index(s.body, term); i >= 0 {
			at = min(at, i)
		}
	}
	if at == len(s.body) || len(s.body) != len(s.text) { // in the title only; or lower case has another length
		at = 0
	}
	from := max(0, at-excerptLength/3)
	if from > 0 {
		from += strings.IndexByte(s.text[from:], ' ') + 1
	}
	to := min(len(s.text), from+excerptLength)
	if to < len(s.text) {
		to = from + max(0, strings.LastIndexByte(s.text[from:to], ' '))
	}
	quoted := make([]string, len(terms))
	for i, term := range terms {
		quoted[i] = regexp.QuoteMeta(term)
	}
	slices.SortFunc(quoted, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	marked := regexp.MustCompile("(?i)"+strings.Join(quoted, "|")).ReplaceAllString(s.text[from:to], "\x01$0\x02")
	marked = strings.NewReplacer("\x01", "<mark>", "\x02", "</mark>").Replace(html.EscapeString(marked))
	return template.HTML(marked) //nolint:gosec // escaped
}
