package scan

import (
	"bytes"
	"html"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	tokenizer "golang.org/x/net/html"

	"github.com/eventrelay/relay/pkg/secrets"
)

const (
	// maxSecrets bounds the secrets of one body.
	maxSecrets = 1_000
	// maxURL bounds the length of a URL that is requested.
	maxURL = 2_048
	// maxNext bounds the links that one body names, and the scripts; maxNextBytes bounds the URLs of each.
	maxNext      = 20_000
	maxNextBytes = 2 << 20
)

// read looks for secrets in a body, and for what else it names.
func (r *run) read(res *result) {
	switch res.task.kind {
	case page:
		r.scanText(res, res.body, "")
		if isHTML(res.body) {
			r.readHTML(res)
		}
	case script:
		r.scanText(res, res.body, "")
		r.readScriptFile(res)
	case sourceMap, guessedMap:
		r.readMap(res, res.body)
	case sitemap:
		r.readSitemap(res)
	case probed:
		if !isHTML(res.body) { // a page is scanned where it belongs
			r.scanText(res, res.body, "")
		}
	case unknownPath:
	}
}

// scanText looks for secrets that must stay on servers. file is the source in a source map; empty otherwise.
func (r *run) scanText(res *result, text []byte, file string) {
	r.target.Rules.Scan(text, func(m secrets.Match) bool {
		if m.Rule.Exposure != secrets.Server {
			return true // it is meant to be public
		}
		f := Found{Rule: m.Rule, Secret: text[m.Start:m.End], URL: shownURL(res.url), File: file}
		if file != "" {
			f.Line = 1 + bytes.Count(text[:m.Start], []byte{'\n'})
		}
		res.secrets = append(res.secrets, f)
		return len(res.secrets) < maxSecrets
	})
}

var htmlStart = regexp.MustCompile(`(?i)^\s*(?:<!--[^>]*-->\s*)*<(?:!doctype html|html|head|body|\?xml)`)

// isHTML reports whether a body is a page, whatever its type is said to be.
func isHTML(body []byte) bool { return htmlStart.Match(body[:min(len(body), 1<<10)]) }

// readHTML queues the links and scripts of a page.
func (r *run) readHTML(res *result) {
	z := tokenizer.NewTokenizer(bytes.NewReader(res.body))
	base, inScript := res.url, false
	for {
		switch z.Next() {
		case tokenizer.ErrorToken:
			return
		case tokenizer.TextToken:
			if inScript {
				r.readScript(res, z.Raw())
			}
			inScript = false
		case tokenizer.StartTagToken, tokenizer.SelfClosingTagToken:
			name, attrs := readTag(z)
			inScript = name == "script"
			switch name {
			case "base":
				if u, err := res.url.Parse(attrs["href"]); err == nil {
					u.Host = hostOf(u) // once, not for each link: it may be long
					base = u
				}
			case "a", "area":
				r.addLink(res, base, attrs["href"])
			case "iframe", "frame":
				r.addLink(res, base, attrs["src"])
			case "script":
				r.addScript(res, base, attrs["src"])
			case "link":
				rel := strings.Fields(strings.ToLower(attrs["rel"]))
				if slices.Contains(rel, "modulepreload") || slices.Contains(rel, "preload") && attrs["as"] == "script" {
					r.addScript(res, base, attrs["href"])
				}
			}
		}
	}
}

// readTag returns the name of a tag and those attributes that may lead somewhere.
func readTag(z *tokenizer.Tokenizer) (name string, attrs map[string]string) {
	raw, more := z.TagName()
	name, attrs = string(raw), map[string]string{}
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch k := string(key); k {
		case "href", "src", "rel", "as":
			if _, repeated := attrs[k]; !repeated && len(value) <= maxURL {
				attrs[k] = string(value)
			}
		}
	}
	return name, attrs
}

// parse returns the URL that a reference names, over https and without fragment and credentials; nil if it is none. A
// page of the website that is linked with http is read over https.
func (r *run) parse(base *url.URL, reference string) *url.URL {
	reference = strings.TrimSpace(reference)
	if reference == "" || len(reference) > maxURL {
		return nil
	}
	u, err := base.Parse(reference)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil
	}
	u.Fragment, u.RawFragment, u.User = "", "", nil
	if u.Scheme == "http" && hostOf(u) == r.target.Hostname {
		u.Scheme = "https"
	}
	if u.Scheme != "https" {
		return nil
	}
	u.Host = hostOf(u)
	if u.Path == "" {
		u.Path = "/"
	}
	if len(u.String()) > maxURL { // the base may be long too
		return nil
	}
	return u
}

// hasRoom reports whether a body may name one more URL. After all links there is room for scripts.
func (res *result) hasRoom(u *url.URL, k kind) bool {
	parts := 1
	if k == script {
		parts = 2
	}
	if len(res.next)+len(res.unfollowed) >= parts*maxNext || res.named > parts*maxNextBytes {
		res.dropped++
		return false
	}
	res.named += len(u.Host) + len(u.Path) + len(u.RawPath) + len(u.RawQuery)
	return true
}

// pageTypes are the ends of paths that lead to pages.
var pageTypes = []string{"", ".html", ".htm", ".php", ".asp", ".aspx", ".jsp", ".xhtml"}

// addLink queues a page of the same host.
func (r *run) addLink(res *result, base *url.URL, reference string) {
	u := r.parse(base, reference)
	if u == nil || hostOf(u) != r.target.Hostname || !res.hasRoom(u, page) {
		return
	}
	switch extension := strings.ToLower(path.Ext(u.Path)); {
	case u.RawQuery != "" || u.ForceQuery:
		res.unfollowed = append(res.unfollowed, unfollowed{u, skippedQuery})
	case !slices.Contains(pageTypes, extension) && len(extension) <= 6:
		res.unfollowed = append(res.unfollowed, unfollowed{u, skippedFileType})
	default:
		res.next = append(res.next, task{kind: page, url: u, depth: res.task.depth + 1})
	}
}

// addScript queues a script, also with a query: it often has a version.
func (r *run) addScript(res *result, base *url.URL, reference string) {
	if u := r.parse(base, reference); u != nil && res.hasRoom(u, script) {
		res.next = append(res.next, task{kind: script, url: u, depth: res.task.depth})
	}
}

var sitemapURL = regexp.MustCompile(`<loc>\s*([^<\s]+)\s*</loc>`)

var sitemapIndex = regexp.MustCompile(`<sitemapindex[\s>]`)

// readSitemap queues the pages that a sitemap names, or the sitemaps that an index names. An index in an index is not
// read.
func (r *run) readSitemap(res *result) {
	isIndex := sitemapIndex.Match(res.body)
	for _, m := range sitemapURL.FindAllSubmatch(res.body, maxNext) {
		reference := html.UnescapeString(string(m[1]))
		if !isIndex {
			r.addLink(res, res.url, reference)
			continue
		}
		u := r.parse(res.url, reference)
		if u == nil || hostOf(u) != r.target.Hostname || !res.hasRoom(u, sitemap) {
			continue
		}
		if res.task.depth > 0 {
			res.unfollowed = append(res.unfollowed, unfollowed{u, skippedDepth})
			continue
		}
		res.next = append(res.next, task{kind: sitemap, url: u, depth: 1})
	}
}
