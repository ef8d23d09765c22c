// Package docs has the documents, which the relay serves at /docs.
package docs

import "embed"

// Files are the Markdown files and their pictures.
//
//go:embed *.md contribute design operate pictures/*.png pictures/*.svg releases start
var Files embed.FS
