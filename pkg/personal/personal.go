// Package personal finds personal data in text by its shape: email addresses, phone numbers in international form,
// numbers of payment cards, bank accounts (IBAN) and IP addresses.
//
// Shapes with a checksum (cards, IBAN) are verified, so that other numbers are rarely found. Values that documentation
// reserves, such as addresses at example.com, are nobody's and are left out. Names of people have no shape and are not
// found. Begin reading at Scan.
package personal

import (
	"cmp"
	"slices"
)

// Kind is what a match is.
type Kind string

// Kinds of personal data.
const (
	Email Kind = "email"
	Phone Kind = "phone"
	Card  Kind = "card"
	IBAN  Kind = "iban"
	IP    Kind = "ip"
)

// Match is one piece of personal data: text[Start:End].
type Match struct {
	Kind       Kind
	Start, End int
}

// finders look for one kind each, in order of position.
var finders = []func(text string, found func(Match)){findEmails, findPhones, findDigits, findIBANs, findIPs}

// Scan returns all matches in order of position. They do not overlap: the one that begins first counts, then the
// longer one. It takes time in proportion to the length of the text.
func Scan(text string) []Match {
	var all []Match
	for _, find := range finders {
		find(text, func(m Match) { all = append(all, m) })
	}
	slices.SortStableFunc(all, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	kept := all[:0]
	for _, m := range all {
		if len(kept) == 0 || m.Start >= kept[len(kept)-1].End {
			kept = append(kept, m)
		}
	}
	return kept
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|' ' >= 'a' && c|' ' <= 'z' }

// isWord reports whether c belongs to a word; bytes of characters outside of ASCII do.
func isWord(c byte) bool { return isDigit(c) || isLetter(c) || c == '_' || c >= 0x80 }

// wordBefore and wordAfter report whether the text goes on as a word beside a position.
func wordBefore(text string, i int) bool { return i > 0 && isWord(text[i-1]) }
func wordAfter(text string, i int) bool  { return i < len(text) && isWord(text[i]) }
