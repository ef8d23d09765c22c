// Package personal finds personal data in text by its shape: email addresses, phone numbers in international form,
// numbers of payment cards, bank accounts (IBAN) and IP addresses.
//
// Shapes with a checksum (cards, IBAN) are verified, so that other numbers are rarely found. Values that documentation
// reserves, such as addresses at example.com, are nobody's and are left out. Names of people have no shape and are not
// found. Begin reading at Scan.
package personal

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
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

// Digits of a phone number (E.164) after the plus sign.
const minPhone, maxPhone = 8, 15

// findPhones finds numbers in international form: a plus sign, a country code, and digits with separators.
func findPhones(text string, found func(Match)) {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '+' || text[i+1] < '1' || text[i+1] > '9' || wordBefore(text, i) {
			continue
		}
		end, digits := i+1, 0
		for at := i + 1; at < len(text) && at-i < 3*maxPhone; at++ {
			if isDigit(text[at]) {
				digits++
				end = at + 1
			} else if strings.IndexByte(" -./()", text[at]) < 0 || at > end+1 {
				break
			}
		}
		if digits >= minPhone && digits <= maxPhone && !wordAfter(text, end) {
			found(Match{Phone, i, end})
		}
		i = end - 1
	}
}

// cardGroups are the lengths of the groups in which numbers of cards are written.
var cardGroups = [][]int{{4, 4, 4, 4}, {4, 4, 4, 4, 3}, {4, 6, 5}, {4, 6, 4}}

// findDigits finds numbers of cards: digits without separators, or in the usual groups.
func findDigits(text string, found func(Match)) {
	for i := 0; i < len(text); {
		if !isDigit(text[i]) || wordBefore(text, i) || i > 0 && text[i-1] == '.' {
			i++
			continue
		}
		end := digitsEnd(text, i)
		if n := cardEnd(text, i, end); n > 0 {
			found(Match{Card, i, n})
			end = n
		}
		i = end
	}
}

func digitsEnd(text string, i int) int {
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	return i
}

// cardEnd returns the end of the card number that begins at start, 0 if none does. end is that of its first digits.
func cardEnd(text string, start, end int) int {
	if IsCard(text[start:end]) && !wordAfter(text, end) {
		return end
	}
	for _, groups := range cardGroups {
		number, at := "", start
		for i, n := range groups {
			if i > 0 && (at >= len(text) || text[at] != ' ' && text[at] != '-') {
				break
			}
			if i > 0 {
				at++
			}
			to := digitsEnd(text, at)
			if to-at != n {
				break
			}
			number, at = number+text[at:to], to
		}
		if IsCard(number) && !wordAfter(text, at) {
			return at
		}
	}
	return 0
}

// IsCard reports whether digits are the number of a payment card: a length that the issuer uses and the check digit of
// ISO/IEC 7812.
func IsCard(digits string) bool {
	if len(digits) < 13 || len(digits) > 19 || digitsEnd(digits, 0) != len(digits) || !hasIssuer(digits) {
		return false
	}
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// hasIssuer reports whether an issuer of cards has numbers of this length with these first digits.
func hasIssuer(digits string) bool {
	first, err := strconv.Atoi(digits[:4])
	if err != nil {
		return false
	}
	n, two := len(digits), first/100
	switch {
	case two >= 40 && two <= 49:
		return n == 13 || n == 16 || n == 19
	case two == 34 || two == 37:
		return n == 15
	case two >= 51 && two <= 55, first >= 2221 && first <= 2720:
		return n == 16
	case two == 30 || two == 36 || two == 38 || two == 39:
		return n >= 14
	}
	return n >= 16 && (two == 35 || two == 50 || two >= 56 && two <= 69)
}

// ibanLengths are the lengths of the countries in the registry of ISO 13616.
var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
	"CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
	"FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
	"IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
	"LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18,
	"NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24,
	"SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24,
	"XK": 20,
}

// findIBANs finds account numbers without spaces or in groups of four.
func findIBANs(text string, found func(Match)) {
	for i := 0; i+4 <= len(text); i++ {
		if !isLetter(text[i]) || !isLetter(text[i+1]) || !isDigit(text[i+2]) || wordBefore(text, i) {
			continue
		}
		n := ibanLengths[strings.ToUpper(text[i:i+2])]
		if number, end := readGroups(text, i, n); number != "" && hasChecksum(number) && !wordAfter(text, end) {
			found(Match{IBAN, i, end})
			i = end - 1
		}
	}
}

// readGroups reads n letters and digits in capitals; a space or a hyphen may stand before each fourth.
func readGroups(text string, at, n int) (number string, end int) {
	b := make([]byte, 0, n)
	for ; len(b) < n && at < len(text); at++ {
		c := text[at]
		if (c == ' ' || c == '-') && len(b) > 0 && len(b)%4 == 0 && isWord(text[at-1]) {
			continue
		}
		if !isDigit(c) && !isLetter(c) {
			return "", 0
		}
		b = append(b, c)
	}
	if len(b) < n {
		return "", 0
	}
	return strings.ToUpper(string(b)), at
}

// hasChecksum verifies the check digits of an account number: ISO/IEC 7064, mod 97-10.
func hasChecksum(number string) bool {
	sum := 0
	for _, c := range slices.Concat([]byte(number[4:]), []byte(number[:4])) {
		if isDigit(c) {
			sum = (sum*10 + int(c-'0')) % 97
		} else {
			sum = (sum*100 + int(c-'A') + 10) % 97
		}
	}
	return sum == 1
}

// Longest parts of an email address (RFC 5321, section 4.5.3.1), and of an IP address, in bytes.
const (
	maxLocal  = 64
	maxDomain = 255
	maxIP     = 45
)

// findEmails finds addresses around @, also when it is percent-encoded as in a URL.
func findEmails(text string, found func(Match)) {
	for i := 0; i < len(text); i++ {
		width := 1
		if text[i] != '@' {
			if width = 3; text[i] != '%' || !strings.HasPrefix(text[i:], "%40") {
				continue
			}
		}
		start := i
		for start > 0 && i-start < maxLocal && isLocal(text[start-1]) {
			start--
		}
		end := i + width
		for end < len(text) && end-i < maxDomain && isDomain(text[end]) {
			end++
		}
		end = i + width + len(strings.TrimRight(text[i+width:end], ".-"))
		if domain := strings.ToLower(text[i+width : end]); start < i && isPublicDomain(domain) {
			found(Match{Email, start, end})
			i = end - 1
		}
	}
}

func isLocal(c byte) bool {
	return isWord(c) || strings.IndexByte(".+-'%!#$&*/=?^`{|}~", c) >= 0
}

func isDomain(c byte) bool { return isWord(c) || c == '.' || c == '-' }

// isPublicDomain reports whether a domain has a top level of letters and is not reserved (RFC 2606).
func isPublicDomain(domain string) bool {
	i := strings.LastIndexByte(domain, '.')
	if i < 1 {
		return false
	}
	top := domain[i+1:]
	if len(top) < 2 || !isLetter(top[0]) && top[0] < 0x80 {
		return false
	}
	_, second, _ := strings.Cut("."+domain[:i], ".")
	second = second[strings.LastIndexByte(second, '.')+1:]
	return !slices.Contains([]string{"example", "test", "invalid", "localhost"}, top) &&
		!(second == "example" && slices.Contains([]string{"com", "org", "net"}, top))
}

// reserved are addresses of documentation (RFC 5737, RFC 3849) and those that name no host or this one.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::/127"),
}

// findIPs finds addresses of IP version 4 and 6.
func findIPs(text string, found func(Match)) {
	for i := 0; i < len(text); {
		if !isIP(text[i]) {
			i++
			continue
		}
		end, dots, colons := i, 0, 0
		for ; end < len(text) && isIP(text[end]); end++ {
			switch text[end] {
			case '.':
				dots++
			case ':':
				colons++
			}
		}
		if dots >= 3 || colons >= 2 {
			findIP(text, i, end, found)
		}
		i = end
	}
}

// findIP finds one address in a run of its characters. A port may follow an address of version 4.
func findIP(text string, start, end int, found func(Match)) {
	if wordBefore(text, start) || wordAfter(text, end) {
		return
	}
	run := strings.TrimRight(text[start:end], ".:")
	if host, _, ok := strings.Cut(run, ":"); ok && strings.Count(host, ".") == 3 {
		run = host
	}
	if len(run) > maxIP {
		return
	}
	address, err := netip.ParseAddr(run)
	if err != nil || slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) }) {
		return
	}
	found(Match{IP, start, start + len(run)})
}

func isIP(c byte) bool { return isDigit(c) || c == '.' || c == ':' || c|' ' >= 'a' && c|' ' <= 'f' }
