package secrets

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Use is what a rule serves.
type Use string

// Uses of rules.
const (
	ForLeaks    Use = "leak"    // credentials in logs, events and pages: what is found becomes a finding
	ForReceipts Use = "receipt" // texts of receivers, which are refused if they contain a credential
)

// Kind is the matcher of a rule.
type Kind string

// Matchers of rules.
const (
	KindToken  Kind = "token"  // a prefix and a run of characters, or several with separators between them
	KindJWT    Kind = "jwt"    // three base64url segments, the first a JSON object with the member alg
	KindURI    Kind = "uri"    // a URI with user and password
	KindPEM    Kind = "pem"    // a private key in the textual encoding of RFC 7468
	KindJWK    Kind = "jwk"    // a private JSON Web Key (RFC 7517)
	KindAssign Kind = "assign" // a name, an operator and a value
)

// Severity is how bad a leak is, before its context is known.
type Severity string

// Severities of rules.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
)

// Exposure is where a credential may be seen.
type Exposure string

// Exposures of rules.
const (
	Server Exposure = "server" // on servers only
	Public Exposure = "public" // in client code too: a page or response that shows it is no leak
)

// Rule describes one kind of credential. Its values are those of rules.json.
type Rule struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Provider string   `json:"provider"` // "" if any provider's
	Kind     Kind     `json:"kind"`
	Uses     []Use    `json:"use"` // leak if absent
	Severity Severity `json:"severity"`
	Exposure Exposure `json:"exposure"` // server if absent
	// Docs is the provider's page about this kind of key.
	Docs string `json:"docs"`
	// Fingerprint allows to group matches by a keyed hash of the secret. It is false where that can be guessed:
	// values of assignments and passwords of URIs.
	Fingerprint bool `json:"fingerprint"`
	// Test marks credentials that open nothing: our test keys and keys of test modes.
	Test bool `json:"test"`
	// Generic rules lose against every specific one that overlaps.
	Generic bool `json:"generic"`

	shape

	order  int  // in rules.json
	custom bool // a customer's
	// isTripwire accepts the characters after the prefix, in place of all that is no matter of shape; nil = see accepts.
	isTripwire func(text string) bool
}

// shape is how a rule's credentials look.
type shape struct {
	// Prefixes of token, jwt, pem and jwk, schemes of uri, names of assign. In a name, '_' stands for '_', '-', '.' or
	// nothing.
	Prefixes []string `json:"prefixes"`
	// Fold ignores the case of ASCII letters in prefixes; rules.json has them in lower case. Schemes and names always do.
	Fold bool `json:"fold"`
	// Lead is a run of characters before the prefix that belongs to the token.
	Lead part `json:"lead"`
	// Left is what may stand before: word (no word character) if absent, charset (no character of the charset) or any.
	Left string `json:"left"`
	// Right is what may stand behind: word if absent, charset or any.
	Right string `json:"right"`
	// Charset, Min and Max are those of the characters after the prefix; Then are further parts behind separators.
	part
	Then []part `json:"then"`
	// Spaces may follow the prefix.
	Spaces bool `json:"spaces"`
	// Contains must be among the characters.
	Contains string `json:"contains"`
	// Need are charsets; the characters after the prefix must include one of each.
	Need []string `json:"need"`
	// Entropy is the least Shannon entropy of what follows the prefix, in bits a character.
	Entropy float64 `json:"entropy"`
	// Except are words before a name that say that the value is no credential.
	Except []string `json:"except"`
	// Claim is a member that the payload of a JSON Web Token must have, and its value.
	Claim map[string]string `json:"claim"`
	// Check names an additional check: relay and relay-decoy verify the checksum of EventRelay's own keys.
	Check string `json:"check"`
	// Show is how much of a secret its mask shows.
	Show *show `json:"mask"`
}

// part is a run of characters: those of a charset, and how many.
type part struct {
	Separator string `json:"separator"` // before it
	Charset   string `json:"charset"`
	Min       int    `json:"min"`
	Max       int    `json:"max"`

	set *charset
}

// show is how many characters of its start and end a mask keeps.
type show struct {
	Head int `json:"head"`
	Tail int `json:"tail"`
}

// Names in rules.json.
const (
	boundaryWord    = "word"
	boundaryCharset = "charset"
	boundaryAny     = "any"

	checkRelay   = "relay"
	checkTestKey = "relay-decoy"
)

// prepare validates the rule and fills in what rules.json leaves out.
func (r *Rule) prepare() error {
	if len(r.Uses) == 0 {
		r.Uses = []Use{ForLeaks}
	}
	if r.Exposure == "" {
		r.Exposure = Server
	}
	r.Fold = r.Fold || r.Kind == KindURI || r.Kind == KindAssign
	switch {
	case r.ID == "" || r.Name == "":
		return errors.New("id and name are required")
	case !slices.Contains([]Severity{Critical, High, Medium, Low}, r.Severity):
		return fmt.Errorf("severity %q is unknown", r.Severity)
	case r.Exposure != Server && r.Exposure != Public:
		return fmt.Errorf("exposure %q is unknown", r.Exposure)
	case slices.ContainsFunc(r.Uses, func(u Use) bool { return u != ForLeaks && u != ForReceipts }):
		return fmt.Errorf("use %v has an unknown one", r.Uses)
	case len(r.Prefixes) == 0 || slices.Contains(r.Prefixes, ""):
		return errors.New("a prefix is required")
	case r.Fold && strings.ToLower(strings.Join(r.Prefixes, "")) != strings.Join(r.Prefixes, ""):
		return errors.New("prefixes must be in lower case because their case is ignored")
	case r.Fingerprint && (r.Kind == KindURI || r.Kind == KindAssign):
		return errors.New("a value that can be guessed must not have a fingerprint")
	case len(r.Claim) > 0 && r.Max > maxClaims:
		return fmt.Errorf("max must be at most %d because of the claim", maxClaims)
	case !slices.Contains([]string{"", checkRelay, checkTestKey}, r.Check):
		return fmt.Errorf("check %q is unknown", r.Check)
	}
	return r.prepareShape()
}

func (r *Rule) prepareShape() error {
	for _, side := range []*string{&r.Left, &r.Right} {
		if *side == "" {
			*side = boundaryWord
		}
		if !slices.Contains([]string{boundaryWord, boundaryCharset, boundaryAny}, *side) {
			return fmt.Errorf("boundary %q is unknown", *side)
		}
	}
	for _, need := range r.Need {
		if charsets[need] == nil {
			return fmt.Errorf("need %q is unknown", need)
		}
	}
	switch r.Kind {
	case KindJWT, KindPEM, KindJWK, KindURI:
		r.Charset = "urlsafe"
	case KindToken, KindAssign:
	default:
		return fmt.Errorf("kind %q is unknown", r.Kind)
	}
	parts := []*part{&r.part}
	if r.Lead.Charset != "" {
		parts = append(parts, &r.Lead)
	}
	for i := range r.Then {
		parts = append(parts, &r.Then[i])
	}
	for _, p := range parts {
		if p.set = charsets[p.Charset]; p.set == nil || p.Min < 0 || p.Max < max(1, p.Min) {
			return errors.New("charset must be known, min at least 0 and max at least 1 and not below min")
		}
	}
	return nil
}

// patterns returns the texts that the automaton looks for.
func (r *Rule) patterns() []string {
	var texts []string
	for _, prefix := range r.Prefixes {
		switch r.Kind {
		case KindURI: // a URI inside a URL has its colon percent-encoded
			texts = append(texts, prefix+":", prefix+"%", prefix+"+")
		case KindAssign:
			texts = append(texts, prefix)
			if short := strings.ReplaceAll(prefix, "_", ""); short != prefix {
				texts = append(texts, short)
			}
		default:
			texts = append(texts, prefix)
		}
	}
	return texts
}

// reach is how many bytes after a prefix the rule's matcher reads at most. An escaped character has up to 13 bytes, but
// not many of a credential's are.
func (r *Rule) reach() int {
	const slack = 64
	switch r.Kind {
	case KindJWT:
		return 2*maxJWTHeader + r.Max + slack
	case KindURI:
		return maxUser + maxPassword + maxHost + slack
	case KindPEM, KindJWK:
		return maxLabel + r.Max + slack
	}
	n := slack
	if r.Kind == KindAssign {
		n += maxOperator
	}
	for _, p := range append([]part{r.part}, r.Then...) {
		n += len(p.Separator)*3 + p.Max
		if p.set.escaped() {
			n += p.Max / 2
		}
	}
	return n
}

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
