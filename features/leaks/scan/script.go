package scan

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"regexp"
	"strings"
)

const (
	// maxChunks bounds the scripts that one script names.
	maxChunks = 100
	// maxMapDepth bounds how deep the JSON of a source map is nested.
	maxMapDepth = 16
	// maxSources bounds the sources of a map whose names are kept.
	maxSources = 50_000
)

// literal is a quoted path of a script: import("./a.js"), "static/chunks/a.js".
var literal = regexp.MustCompile("[\"'`]" + `([A-Za-z0-9_./@~+%:-]{1,300}\.m?js)(?:\?[A-Za-z0-9_=&.-]{0,100})?` +
	"[\"'`]")

// chunkNames is what webpack makes of the names of chunks: "js/"+e+"."+{12:"ab34"}[e]+".js", where the name may come
// from another table: "js/"+({12:"cart"}[e]||e)+"."+{12:"ab34"}[e]+".js".
var chunkNames = regexp.MustCompile(
	`"([\w./-]{0,100})"\s*\+\s*(?:\(\s*\{([^{}]*)\}\s*\[\w+\]\s*\|\|\s*\w+\s*\)|\w+)\s*` +
		`\+\s*"([._-])"\s*\+\s*\{([^{}]*)\}\s*\[\w+\]\s*\+\s*"([\w.-]{0,50}\.js)"`)

var mapComment = regexp.MustCompile(`[#@]\s*sourceMappingURL=([^\s'"*]+)`)

// readScriptFile queues what a script names. If that is no source map, the usual name of one is tried: bundlers can
// leave the name out, and the map is published all the same.
func (r *run) readScriptFile(res *result) {
	named := r.readScript(res, res.body)
	if header := res.header.Get("SourceMap"); header != "" {
		res.addMap(header)
	} else if !named && !isHTML(res.body) {
		u := *res.url
		u.Path, u.RawPath, u.RawQuery, u.ForceQuery = u.Path+".map", "", "", false
		res.next = append(res.next, task{kind: guessedMap, url: &u, depth: res.task.depth})
	}
}

// readScript queues the chunks and the source map that a script names, and returns whether it names a map.
func (r *run) readScript(res *result, text []byte) (hasMap bool) {
	chunks := 0
	add := func(reference string) bool {
		if chunks++; chunks > maxChunks {
			return false
		}
		r.addScript(res, res.url, chunkPath(res.url.Path, reference))
		return true
	}
	for _, m := range chunkNames.FindAllSubmatch(text, 10) {
		names := map[string]string{}
		for name, given := range chunkEntries(m[2]) {
			names[name] = given
		}
		for name, hash := range chunkEntries(m[4]) {
			if !add(string(m[1]) + cmp.Or(names[name], name) + string(m[3]) + hash + string(m[5])) {
				break
			}
		}
	}
	for _, m := range literal.FindAllSubmatch(text, maxChunks) {
		add(string(m[1]))
	}
	all := mapComment.FindAllSubmatch(text, -1)
	if len(all) > 0 {
		r.addSourceMap(res, string(all[len(all)-1][1]))
	}
	return len(all) > 0
}

// chunkEntries yields the first entries of a table that chunkNames has found: 12:"ab34". It is no regular expression,
// which would read a long table at a microsecond or more for each byte.
func chunkEntries(table []byte) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		left := maxChunks
		for entry := range bytes.SplitSeq(table, []byte{','}) {
			name, value, _ := bytes.Cut(entry, []byte{':'})
			name, value = bytes.TrimSpace(name), bytes.TrimSpace(value)
			if n := len(name); n > 2 && name[0] == '"' && name[n-1] == '"' {
				name = name[1 : n-1]
			}
			n := len(value)
			if n < 3 || value[0] != '"' || value[n-1] != '"' || !isChunkName(name) || !isChunkName(value[1:n-1]) {
				continue
			}
			if !yield(string(name), string(value[1:n-1])) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// isChunkName reports whether a text may be the number, name or hash of a chunk.
func isChunkName(text []byte) bool {
	const most = 100
	return len(text) > 0 && len(text) <= most && !bytes.ContainsFunc(text, func(c rune) bool {
		return c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// chunkPath returns the reference of a chunk that a script names. Bundlers write paths from their own root, which may
// be a folder of the website: /_next/static/chunks/a.js names static/chunks/b.js.
func chunkPath(script, reference string) string {
	first, _, isPath := strings.Cut(reference, "/")
	switch {
	case strings.Contains(reference, "://"), first == "", first == ".", first == "..":
		return reference
	case !isPath:
		return "./" + reference // beside the script
	}
	if i := strings.Index(script, "/"+first+"/"); i >= 0 {
		return script[:i+1] + reference
	}
	return "/" + reference
}

// addMap queues the source map that a header names.
func (res *result) addMap(reference string) {
	if u, err := res.url.Parse(reference); err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil {
		u.Fragment, u.RawFragment = "", ""
		res.next = append(res.next, task{kind: sourceMap, url: u, depth: res.task.depth})
	}
}

// addSourceMap queues a source map, or reads it if it is in the script.
func (r *run) addSourceMap(res *result, reference string) {
	if data, ok := strings.CutPrefix(reference, "data:"); ok {
		head, encoded, _ := strings.Cut(data, ",")
		if text, err := base64.StdEncoding.DecodeString(encoded); err == nil && strings.HasSuffix(head, ";base64") {
			r.readMap(res, text)
		}
		return
	}
	if len(reference) <= maxURL {
		res.addMap(reference)
	}
}

// readMap looks for secrets in the sources of a source map (ECMA-426); in its text, if it cannot be read.
func (r *run) readMap(res *result, text []byte) {
	plain := bytes.TrimPrefix(text, []byte(")]}'"))
	before := len(res.secrets)
	d := json.NewDecoder(bytes.NewReader(plain))
	if depthOf(plain) > maxMapDepth || !json.Valid(plain) || r.scanSources(res, d) != nil {
		res.secrets = res.secrets[:before]
		if res.task.kind == guessedMap && res.skipped == "" {
			return // something else stands there
		}
		if res.skipped == "" {
			res.skipped, res.cut = skippedUnreadable, true
		}
		r.scanText(res, text, "")
	}
}

// unnamed is the name of a source that has none.
const unnamed = "?"

// scanSources looks for secrets in the next value, a source map or null, one source after the other: a text of some
// kilobytes, compressed, may name millions. The names of sources may come after their contents.
func (r *run) scanSources(res *result, d *json.Decoder) error {
	var names []string
	var sourceOf []int // by secret of this map
	var secretAt []int // its place in res.secrets
	err := eachMember(d, func(name string) error {
		switch name {
		case "sources":
			names = names[:0]
			return eachString(d, func(_ int, source string) {
				if len(names) < maxSources {
					names = append(names, source)
				}
			})
		case "sourcesContent":
			return eachString(d, func(i int, content string) {
				first := len(res.secrets)
				if first < maxSecrets {
					r.scanText(res, []byte(content), unnamed)
				}
				for at := first; at < len(res.secrets); at++ {
					sourceOf, secretAt = append(sourceOf, i), append(secretAt, at)
				}
			})
		case "sections":
			return eachValue(d, '[', func(int) error { return r.scanSection(res, d) })
		}
		return skipValue(d)
	})
	for k, i := range sourceOf {
		if i < len(names) && names[i] != "" {
			res.secrets[secretAt[k]].File = names[i]
		}
	}
	return err
}

// scanSection looks for secrets in the next value, a section of a source map.
func (r *run) scanSection(res *result, d *json.Decoder) error {
	return eachMember(d, func(name string) error {
		if name == "map" {
			return r.scanSources(res, d)
		}
		return skipValue(d)
	})
}

// errNoSourceMap says that a value is of another type than in a source map.
var errNoSourceMap = errors.New("not a source map")

// eachMember calls f before the value of each member of the next value, an object or null.
func eachMember(d *json.Decoder, f func(name string) error) error {
	return eachValue(d, '{', func(int) error {
		name, err := d.Token()
		if err != nil {
			return err
		}
		return f(name.(string)) // an object has no other names
	})
}

// eachString calls f with each element of the next value, an array of strings or null. An element that is null is "".
func eachString(d *json.Decoder, f func(i int, text string)) error {
	return eachValue(d, '[', func(i int) error {
		var text string
		err := d.Decode(&text)
		f(i, text)
		return err
	})
}

// eachValue calls f before each member or element of the next value, which begins with open or is null.
func eachValue(d *json.Decoder, open json.Delim, f func(i int) error) error {
	switch token, err := d.Token(); {
	case err != nil || token == nil:
		return err
	case token != open:
		return errNoSourceMap
	}
	for i := 0; d.More(); i++ {
		if err := f(i); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func skipValue(d *json.Decoder) error {
	var value json.RawMessage
	return d.Decode(&value)
}

// depthOf returns how deep a JSON text is nested.
func depthOf(text []byte) (deepest int) {
	depth, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
