package api

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"html/template"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/sdk"
)

// toolsPath is the folder of files that users download; it has a page that lists them.
const toolsPath = "/tools/"

// addTools adds the files to the public pages, each under its plain name and one with the version of this program, and
// beside each a file with its checksum, as sha256sum prints it. Browsers save them and never run them.
func addTools(pages map[string]*frame.Page, version string, ofFeatures []sdk.Tool) error {
	tools, err := sdk.Tools(ofFeatures...)
	if err != nil {
		return err
	}
	number, _, _ := strings.Cut(version, "+") // without the commit
	list := toolsList{Version: number}
	for _, t := range tools {
		versioned := t.Name + "-" + number + t.Extension
		checksum := fmt.Sprintf("%x", sha256.Sum256(t.Content))
		for _, name := range []string{t.Name + t.Extension, versioned} {
			file := frame.NewPage(t.MediaType, t.Content)
			sum := frame.NewPage("text/plain; charset=utf-8", fmt.Appendf(nil, "%s  %s\n", checksum, name))
			file.Download, sum.Download = name, name+".sha256"
			pages[toolsPath+name], pages[toolsPath+name+".sha256"] = file, sum
		}
		list.Files = append(list.Files, listedTool{t.Name + t.Extension, versioned, t.About, checksum, len(t.Content)})
		list.HasSDK = list.HasSDK || t.Extension == ".tgz"
	}
	var buf bytes.Buffer
	if err := toolsTemplate.Execute(&buf, list); err != nil {
		return err
	}
	pages[toolsPath] = frame.NewPage("text/html; charset=utf-8", buf.Bytes())
	return nil
}

// toolsList is the data of the page that lists the files.
type toolsList struct {
	Version string
	HasSDK  bool
	Files   []listedTool
}

type listedTool struct {
	Plain, Versioned, About, Checksum string
	Bytes                             int
}

var toolsTemplate = template.Must(template.New("tools").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tools</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body>
<h1>Tools of version {{.Version}}</h1>
<p>Lockfiles and scripts should name the file with the version: what the plain name is changes with the relay.</p>
<ul>{{range .Files}}
<li><p><a href="/tools/{{.Versioned}}">{{.Versioned}}</a>, {{.Bytes}} bytes, also as
<a href="/tools/{{.Plain}}">{{.Plain}}</a><br>{{.About}}<br>SHA-256
<a href="/tools/{{.Versioned}}.sha256"
><code>{{slice .Checksum 0 32}}<wbr>{{slice .Checksum 32}}</code></a></p></li>{{end}}
</ul>{{if not .HasSDK}}
<p>The SDK is missing: this program was built without npm. Build it with make build.</p>{{end}}
</body></html>
`))
