package reference

import (
	"bytes"
	"cmp"
	"html"
	"html/template"
	"io/fs"
	"mime"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	rendered "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"

	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/docs"
)

// repository is where links to files lead that are no documents.
const repository = "https://github.com/eventrelay/relay/blob/"

// documentPage is a Markdown file as a page.
type documentPage struct {
	*view
	Path, Title string // of the page
	file        string // below docs
	Body        template.HTML
	Headings    []navLink
}

type navLink struct{ Path, Title string }

// navGroup is a part of the navigation.
type navGroup struct {
	Name  string
	Pages []navLink
}

// Has reports whether a page belongs to the group.
func (g navGroup) Has(page string) bool {
	return slices.ContainsFunc(g.Pages, func(l navLink) bool { return l.Path == page })
}

// navNames are the groups of documents by their folder. Those of other folders are in the last one.
var navNames = []navLink{{"start", "Start"}, {"operate", "Operate"}, {"", "API"}, {"design", "Design"},
	{"releases", "Releases"}, {"more", "More"}}

var (
	firstHeading = regexp.MustCompile(`(?m)^# (.+)$`)
	namedLink    = regexp.MustCompile(`\[([^\]]+)\]\(([^)#\s]+\.md)\)`)
	address      = regexp.MustCompile(`\b(href|src|srcset)="([^"]*)"`)
	heading      = regexp.MustCompile(`<h([1-4]) id="([^"]+)">(.*?)</h[1-4]>`)
	codeBlock    = regexp.MustCompile(`<pre><code(?: class="language-(\w+)")?>`)
	anyTag       = regexp.MustCompile(`<[^>]*>`)
)

// readDocuments returns the documents in the order in which docs/README.md links them, then by name, and the files that
// they show.
func (v *view) readDocuments() (pages []*documentPage, pictures []string, err error) {
	contents, err := docs.Files.ReadFile("README.md")
	if err != nil {
		return nil, nil, err
	}
	names, order := map[string]string{}, map[string]int{}
	for i, m := range namedLink.FindAllStringSubmatch(string(contents), -1) {
		if _, known := names[m[2]]; !known && !strings.HasPrefix(m[2], "..") {
			names[m[2]], order[m[2]] = strings.ToUpper(m[1][:1])+m[1][1:], i-1000
		}
	}
	err = fs.WalkDir(docs.Files, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() || strings.HasSuffix(file, ".go"):
			return err
		case path.Ext(file) != ".md":
			pictures = append(pictures, file)
			return nil
		}
		source, err := docs.Files.ReadFile(file)
		title := names[file]
		if m := firstHeading.FindSubmatch(source); title == "" && m != nil {
			title, _, _ = strings.Cut(string(m[1]), ", ")
		}
		pages = append(pages, &documentPage{view: v, Path: documentPath(file), Title: title, file: file})
		return err
	})
	slices.SortStableFunc(pages, func(a, b *documentPage) int { return cmp.Compare(order[a.file], order[b.file]) })
	return pages, pictures, err
}

// documentPath is the path of a document's page.
func documentPath(file string) string {
	return strings.TrimSuffix(sitePath+"/"+strings.TrimSuffix(file, ".md"), "/README")
}

// addNav fills the navigation.
func (v *view) addNav(pages []*documentPage) {
	for _, name := range navNames {
		g := navGroup{Name: name.Title}
		for _, d := range pages {
			folder, _, _ := strings.Cut(d.file, "/")
			if !slices.ContainsFunc(navNames, func(l navLink) bool { return l.Path == folder }) {
				folder = "more"
			}
			if folder == name.Path && d.Path != sitePath {
				g.Pages = append(g.Pages, navLink{d.Path, d.Title})
			}
		}
		switch name.Path {
		case "":
			g.Pages = []navLink{{apiPath, "Introduction"}, {errorsPath, "Error types"}}
			for _, t := range v.Tags {
				g.Pages = append(g.Pages, navLink{t.Path(), t.Name})
			}
			for _, t := range v.Tags {
				if len(t.Objects) > 0 {
					g.Pages = append(g.Pages, navLink{t.ObjectsPath(), "Objects: " + t.Name})
				}
			}
		case "releases":
			slices.Reverse(g.Pages)
		}
		v.Nav = append(v.Nav, g)
	}
}

// addDocuments adds the pages of the documents and their pictures.
func (v *view) addDocuments(to map[string]*api.Page, all []*documentPage, pictures []string) {
	for _, d := range all {
		to[d.Path] = api.Lazily(func() (*api.Page, error) {
			drawn, err := d.render()
			if err != nil {
				return nil, err
			}
			return v.page("document", drawn)
		})
	}
	for _, file := range pictures {
		to[sitePath+"/"+file] = api.Lazily(func() (*api.Page, error) {
			content, err := docs.Files.ReadFile(file)
			return api.NewPage(mime.TypeByExtension(path.Ext(file)), content), err
		})
	}
}

// render returns the page with its Markdown drawn. Raw HTML in it is ours.
func (d documentPage) render() (*documentPage, error) {
	source, err := docs.Files.ReadFile(d.file)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	m := goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(rendered.WithUnsafe()))
	tree := m.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	if err := m.Renderer().Render(&b, source, tree); err != nil {
		return nil, err
	}
	body := address.ReplaceAllStringFunc(b.String(), func(attribute string) string {
		m := address.FindStringSubmatch(attribute)
		return m[1] + `="` + d.target(m[2]) + `"`
	})
	body = heading.ReplaceAllStringFunc(body, func(h string) string {
		m := heading.FindStringSubmatch(h)
		if m[1] == "2" {
			d.Headings = append(d.Headings, navLink{m[2], plain(m[3])})
		}
		return "<h" + m[1] + ` id="` + m[2] + `">` + m[3] + ` <a class="here" href="#` + m[2] +
			`" aria-label="Link to this section">#</a></h` + m[1] + ">"
	})
	body = codeBlock.ReplaceAllString(body, `<figure class="code x"><figcaption>$1</figcaption><pre tabindex="0"><code>`)
	body = strings.NewReplacer("</code></pre>", "</code></pre></figure>", "<table>",
		`<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>`,
		"</table>", "</table></div>").Replace(body)
	d.Body = template.HTML(body) //nolint:gosec // our own documents
	return &d, nil
}

// target is the address of what a document links to: a page, a picture, or a file in the repository.
func (d *documentPage) target(address string) string {
	file, anchor, _ := strings.Cut(address, "#")
	if file == "" || strings.HasPrefix(file, "/") || strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
		return address
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	file = path.Join("docs", path.Dir(d.file), file)
	inner := strings.TrimPrefix(file, "docs/")
	if info, err := fs.Stat(docs.Files, inner); inner == file || err != nil || info.IsDir() {
		return repository + d.revision() + "/" + file + anchor
	}
	return documentPath(inner) + anchor
}

// revision is what the repository calls this version: the commit of a build, else the tag of a release.
func (v *view) revision() string {
	if _, commit, ok := strings.Cut(v.Version, "+"); ok {
		return strings.TrimSuffix(commit, "-dirty")
	}
	return "v" + v.Version
}

// plain is the text of HTML.
func plain(text string) string {
	return strings.TrimSpace(html.UnescapeString(anyTag.ReplaceAllString(text, "")))
}

// anchors makes the anchors of headings as GitHub does, so that the links in the documents hold there too.
type anchors map[string]bool

// Generate implements parser.IDs.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	unique := anchor
	for n := 1; a[unique]; n++ {
		unique = anchor + "-" + strconv.Itoa(n)
	}
	a[unique] = true
	return []byte(unique)
}

// Put implements parser.IDs.
func (a anchors) Put(value []byte) { a[string(value)] = true }
