package secrets

import (
	_ "embed"
	"encoding/json"
)

//go:embed providers.json
var providersJSON []byte

// providerNames are the names of providers in text for people, by the id that rules have.
var providerNames = func() (names map[string]string) {
	if err := json.Unmarshal(providersJSON, &names); err != nil {
		panic("BUG: providers.json: " + err.Error()) // the file is part of the program
	}
	return names
}()

// ProviderName returns the name of a provider in text for people; the id itself for one of a newer version.
func ProviderName(provider string) string {
	if name, ok := providerNames[provider]; ok {
		return name
	}
	return provider
}
