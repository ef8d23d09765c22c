// Package sdk has the programs that users run on their own machines. The relay serves them under /tools.
package sdk

import _ "embed"

//go:embed forward/relay-forward.mjs
var forwarder []byte

//go:embed fixture-run/relay-fixture-run.mjs
var fixtureRunner []byte

// Tool is one program, a single file.
type Tool struct {
	Name, Extension string // the file is called Name + Extension
	MediaType       string
	Content         []byte // callers must not change it
}

// Tools returns all programs.
func Tools() []Tool {
	const javascript = "text/javascript; charset=utf-8"
	return []Tool{
		{"relay-forward", ".mjs", javascript, forwarder},
		{"relay-fixture-run", ".mjs", javascript, fixtureRunner},
	}
}
