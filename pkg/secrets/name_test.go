package secrets

import (
	"os"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// The service and the fixture runner, which is one file, have the same patterns of names.
func TestNamesAreThoseOfTheRunner(t *testing.T) {
	text := must.Get(os.ReadFile("../../sdk/fixture-run/relay-fixture-run.mjs"))(t)
	script := strings.ReplaceAll(string(text), "' +\n  '", "")
	for _, pattern := range []string{
		credentialWord, credentialEnd, joinedName, harmlessName, addedWord, identifiedWord,
	} {
		if !strings.Contains(script, "'"+pattern+"'") && !strings.Contains(script, "/"+pattern+"/") {
			t.Errorf("the runner has no pattern %s", pattern)
		}
	}
}

func TestNamesCredential(t *testing.T) {
	for _, name := range []string{"pass", "auth", "pin", "csrf", "sig", "X-Api-Key", "verification_code", "accesstoken",
		"a[token][0]", "secret_id", "api_key_v2", "PHPSESSID", "APIkey", "jwt", "userPassword"} {
		if !NamesCredential(name) {
			t.Errorf("%s announces no credential", name)
		}
	}
	for _, name := range []string{"passenger", "author", "design", "id", "value", "spinner", "keyboard", "token_type",
		"pageToken", "primaryKeyId", "token_id", "code", "", "[]", "compass", "object_key"} {
		if NamesCredential(name) {
			t.Errorf("%s announces a credential", name)
		}
	}
}
