package secrets

import (
	"regexp"
	"strings"
	"unicode"
)

// Names of parameters, headers and members that announce a credential. The fixture runner has the same patterns
// (sdk/fixture-run/relay-fixture-run.mjs).
const (
	// credentialWord has words at the end of a name, credentialEnd those that also end a longer word (accesstoken).
	credentialWord = `^(?:key|pass|pwd|otp|pin|auth|sig|signature|session|jwt|bearer|csrf|xsrf|` +
		`(?:api|private|access|signing|secret)keys?|session(?:id|key))$`
	credentialEnd = `(?:password|passwd|passphrase|secret|token|authorization|cookie|credential)s?$`
	// joinedName has names however they are written: APIkey, PHPSESSID.
	joinedName = `(?:(?:api|auth|master|access|private|signing|secret)keys?|` +
		`(?:verification|security|confirmation|auth|access|recovery|backup)codes?|sess(?:ion)?id|password)$`
	// harmlessName has names that end like credentials and are none.
	harmlessName = `(?:page|next|sort|public|idempotency|partition|primary|foreign|object|cache)(?:token|key)s?$`
	// addedWord says nothing of its own at the end (secret_id, api_key_v2); what has an id may be no secret (token_id).
	addedWord      = `^(?:(id)|value|v)s?$`
	identifiedWord = `(?:key|token)s?$`
)

var (
	isCredentialWord = regexp.MustCompile(credentialWord)
	isCredentialEnd  = regexp.MustCompile(credentialEnd)
	isJoinedName     = regexp.MustCompile(joinedName)
	isHarmlessName   = regexp.MustCompile(harmlessName)
	isAddedWord      = regexp.MustCompile(addedWord)
	isIdentifiedWord = regexp.MustCompile(identifiedWord)
)

// NamesCredential reports whether a name announces a credential. Each member of a[token][0] is a name.
func NamesCredential(name string) bool {
	for _, member := range strings.FieldsFunc(name, func(c rune) bool { return c == '[' || c == ']' }) {
		words := Words(member)
		whole := strings.Join(words, "")
		hasID := false
		for len(words) > 1 && !hasID {
			last := len(words) - 1
			added := isAddedWord.FindStringSubmatch(words[last])
			if added == nil {
				break
			}
			words = words[:last]
			hasID = added[1] != "" && isIdentifiedWord.MatchString(words[last-1])
		}
		joined := strings.Join(words, "")
		switch {
		case hasID || len(words) == 0:
		case isJoinedName.MatchString(whole) || isJoinedName.MatchString(joined):
			return true
		case isHarmlessName.MatchString(joined):
		case isCredentialWord.MatchString(words[len(words)-1]) || isCredentialEnd.MatchString(words[len(words)-1]):
			return true
		}
	}
	return false
}

// Words returns the words of a name in lower case: api_key, apiKey, API-Key and "api key" are api and key.
func Words(name string) []string {
	var words []string
	runes := []rune(name)
	start := 0
	end := func(i int) {
		if i > start {
			words = append(words, strings.ToLower(string(runes[start:i])))
		}
		start = i
	}
	for i, c := range runes {
		switch {
		case !unicode.IsLetter(c):
			end(i)
			start = i + 1
		case i > start && unicode.IsUpper(c) &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end(i)
		}
	}
	end(len(runes))
	return words
}
