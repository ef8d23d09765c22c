package api

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/eventrelay/relay/sdk"
)

// toolsPath is the folder of programs that users download.
const toolsPath = "/tools/"

// addTools adds the programs to the public pages, each under its plain name and one with the version of this program,
// and beside each a file with its checksum, as sha256sum prints it. Browsers save them and never run them.
func addTools(pages map[string]*page, version string) {
	number, _, _ := strings.Cut(version, "+") // without the commit
	for _, t := range sdk.Tools() {
		for _, name := range []string{t.Name + t.Extension, t.Name + "-" + number + t.Extension} {
			file := newPage(t.MediaType, t.Content)
			sum := newPage("text/plain; charset=utf-8", fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(t.Content), name))
			file.download, sum.download = name, name+".sha256"
			pages[toolsPath+name], pages[toolsPath+name+".sha256"] = &file, &sum
		}
	}
}
