package dashboard

import (
	"encoding/json"

	"github.com/eventrelay/relay/pkg/verify"
)

// preset says what a person must do at a provider so that its webhooks arrive and are verified.
type preset struct {
	Provider string // as the API names it
	Name     string
	About    string // one line for the list of providers
	Menu     string // where the provider's settings are; empty: it differs
	// Steps are what to do at the provider, in order. The ingest URL is shown beside them.
	Steps []string
	// Secret says where the secret is found or entered, SecretForm what it looks like. Empty: there is none.
	Secret, SecretForm string
	Test               string // what the provider sends to try the URL, and what becomes of it
	// Mistake is what is usually wrong if a signature does not match.
	Mistake string
	Docs    string // the provider's own page about webhooks
}

// presets are in the order in which the page shows them: there is one for each provider of the API. The file names the
// pages of the provider that each was compared with, in November 2026.
var presets = readPresets()

func readPresets() (all []preset) {
	text, err := templateFiles.ReadFile("templates/presets.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		panic(err) // the file is a part of the program
	}
	return all
}

// presetOf returns the preset of a provider, nil if there is none.
func presetOf(provider string) *preset {
	for i := range presets {
		if presets[i].Provider == provider {
			return &presets[i]
		}
	}
	return nil
}

// Signs reports whether the provider signs its requests.
func (p *preset) Signs() bool { return verify.ByName(p.Provider).Signs() }

// Configurable reports whether header, algorithm and signed text of the signature are settings.
func (p *preset) Configurable() bool { return verify.ByName(p.Provider).Configurable() }
