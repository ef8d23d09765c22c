package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/web"
)

// staticPath is below which the files lie, in a folder whose name changes with them.
const staticPath = "/static/"

// styles and scripts are the files that every page loads, in this order. The policy for trusted types is in app.js.
var (
	styles  = []string{"tokens.css", "dashboard.css"}
	scripts = []string{"app.js", "live.js", "chart.js"}
)

// staticTypes maps file extensions to media types. The system's table differs between machines.
var staticTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// asset is one file, plain and compressed.
type asset struct {
	mediaType      string
	plain, gzipped []byte
}

// assets are the files by the path under which they are served.
type assets struct {
	folder          string // with a slash at both ends
	files           map[string]*asset
	Styles, Scripts []string // paths
	Icon            string   // path
	Portal          string   // path of the script of the portal alone
}

// newAssets compresses the files.
func newAssets(static fs.FS) (*assets, error) {
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		return nil, err
	}
	sum, contents := sha256.New(), map[string][]byte{}
	for _, e := range entries {
		body, err := fs.ReadFile(static, "static/"+e.Name())
		if err != nil {
			return nil, err
		}
		contents[e.Name()] = body
		fmt.Fprintf(sum, "%s %d\n", e.Name(), len(body))
		sum.Write(body)
	}
	a := &assets{folder: staticPath + hex.EncodeToString(sum.Sum(nil)[:8]) + "/", files: map[string]*asset{}}
	for name, body := range contents {
		a.files[a.folder+name] = &asset{staticTypes[path.Ext(name)], body, web.Gzip(body)}
	}
	a.Styles, a.Scripts, a.Icon = a.paths(styles), a.paths(scripts), a.folder+"icon.svg"
	a.Portal = a.folder + "portal.js"
	return a, nil
}

// StyleOf is the text of the style sheets.
func StyleOf(static fs.FS) (string, error) {
	var style strings.Builder
	for _, name := range styles {
		text, err := fs.ReadFile(static, "static/"+name)
		if err != nil {
			return "", err
		}
		style.Write(text)
	}
	return style.String(), nil
}

// paths returns the paths of files.
func (a *assets) paths(names []string) (paths []string) {
	for _, name := range names {
		paths = append(paths, a.folder+name)
	}
	return paths
}

// serve sends a file. Its path changes with its content, so browsers may keep it for a year.
func (a *assets) serve(w http.ResponseWriter, r *http.Request, method string) error {
	f := a.files[r.URL.Path]
	if f == nil || method != http.MethodGet {
		return web.Missing("There is no such file. Reload the page: the program may have changed.")
	}
	h, body := w.Header(), f.plain
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", f.mediaType)
	if web.AcceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the client may have left
	return nil
}
