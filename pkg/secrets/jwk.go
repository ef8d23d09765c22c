package secrets

import "slices"

// minPrivate is the least length of a private member of a JSON Web Key: that of 128 bits.
const minPrivate = 22

// Members of JSON Web Keys (RFC 7518, section 6): public ones that distinguish a key, then private ones. With d, and k
// of a symmetric key, the others can be computed.
var jwkMembers = []string{"kty", "crv", "d", "k", "p", "q", "dp", "dq", "qi"}

const (
	jwkType = iota
	jwkCurve
	jwkPrivate
	jwkSymmetric
)

// jsonWebKey is what was read of a JSON Web Key.
type jsonWebKey struct {
	seen    uint16 // members
	kind    string
	private span // from the first private value to the last
	secret  span // d or k
}

// jwk matches the private members of a JSON Web Key, from the value of the first one to the end of the last one's: what
// is masked stays JSON. start is that of a member's name, or of the quote before it.
func (r *Rule) jwk(b []byte, start int) span {
	var k jsonWebKey
	k.read(b[:min(len(b), start+r.Max)], start)
	secret := jwkPrivate
	if k.kind == "oct" {
		secret = jwkSymmetric
	}
	if k.kind == "" || k.seen&(1<<secret) == 0 {
		return span{}
	}
	return span{k.private.start, k.secret.start, k.secret.end, k.private.end}
}

// read reads members in any order until the object ends, a member comes twice, or the first one is none of a key. A
// name, a colon and a value are enough, whatever quotes and colours are around them.
func (k *jsonWebKey) read(b []byte, i int) {
	set := charsets["urlsafe"]
	var name []byte
	hasColon := false
	for i < len(b) {
		if !set[b[i]] {
			c, next := readChar(b, i)
			if after := skipColour(b, i); after > i {
				c, next = ' ', after
			}
			if c == '}' {
				return
			}
			hasColon, i = hasColon || c == ':', next
			continue
		}
		end := i + 1
		for end < len(b) && set[b[end]] {
			end++
		}
		switch {
		case hasColon:
			if !k.add(string(name), b, span{start: i, end: end}) {
				return
			}
			name, hasColon = nil, false
		case name != nil && k.seen == 0:
			return
		default:
			name = b[i:end]
		}
		i = end
	}
}

// add adds a member. It returns false if that ends the key.
func (k *jsonWebKey) add(name string, b []byte, value span) bool {
	at := slices.Index(jwkMembers, name)
	if at < 0 {
		return k.seen != 0
	}
	if k.seen&(1<<at) != 0 {
		return false
	}
	switch at {
	case jwkType:
		kind := string(b[value.start:min(value.end, value.start+4)])
		if !slices.Contains([]string{"RSA", "EC", "OKP", "oct"}, kind) {
			return false
		}
		k.kind = kind
	case jwkCurve:
	default:
		if value.end-value.start < minPrivate {
			return false
		}
		if k.private.start == 0 {
			k.private.start = value.start
		}
		k.private.end = value.end
		if at == jwkPrivate || at == jwkSymmetric {
			k.secret = value
		}
	}
	k.seen |= 1 << at
	return true
}

// canonicalJWK returns d or k, which are the first private value unless its name stands behind it.
func canonicalJWK(secret []byte) []byte {
	end := 0
	for end < len(secret) && charsets["urlsafe"][secret[end]] {
		end++
	}
	var k jsonWebKey
	if k.read(secret, end); k.secret.end > 0 {
		return secret[k.secret.start:k.secret.end]
	}
	return secret[:end]
}
