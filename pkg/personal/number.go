package personal

import (
	"slices"
	"strconv"
	"strings"
)

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
