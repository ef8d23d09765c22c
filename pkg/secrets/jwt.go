package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
)

// Longest header of a JSON Web Token that is read, in bytes; it bounds the signature too. The rule's Max bounds the
// payload.
const maxJWTHeader = 1 << 10

// jwt matches three base64url segments. The first is a JSON object with an algorithm (RFC 7515, section 3.1). The last
// may be empty: an unsigned token has the same claims.
func (r *Rule) jwt(b []byte, start int, known *runs) span {
	header, _ := r.set.run(b, start, maxJWTHeader, 0, known)
	if header == len(b) || b[header] != '.' {
		return span{}
	}
	payload, n := r.set.run(b, header+1, r.Max, 0, known)
	if n == 0 || payload == len(b) || b[payload] != '.' {
		return span{}
	}
	if !r.hasClaims(b[header+1:payload]) || !hasAlgorithm(b[start:header]) {
		return span{}
	}
	end, _ := r.set.run(b, payload+1, maxJWTHeader, 0, known)
	return span{start, start, end, end}
}

// hasAlgorithm reports whether a segment is a JSON object with the member alg. It allocates nothing unless it is.
func hasAlgorithm(segment []byte) bool {
	var space [maxJWTHeader]byte
	n, err := base64.RawURLEncoding.Decode(space[:], segment)
	if err != nil || !bytes.Contains(space[:n], []byte(`"alg"`)) {
		return false
	}
	var header struct {
		Algorithm *string `json:"alg"`
	}
	return json.Unmarshal(bytes.Clone(space[:n]), &header) == nil && header.Algorithm != nil
}

// maxClaims is the longest payload, in bytes, of a rule that names claims.
const maxClaims = 1 << 10

// hasClaims reports whether a payload has the claims of the rule. It allocates nothing unless their values are in it.
func (r *Rule) hasClaims(segment []byte) bool {
	if len(r.Claim) == 0 {
		return true
	}
	var space [maxClaims]byte
	n, err := base64.RawURLEncoding.Decode(space[:], segment)
	if err != nil {
		return false
	}
	for _, value := range r.Claim {
		if !bytes.Contains(space[:n], []byte(value)) {
			return false
		}
	}
	claims := map[string]any{}
	if json.Unmarshal(bytes.Clone(space[:n]), &claims) != nil {
		return false
	}
	for name, value := range r.Claim {
		if claims[name] != value {
			return false
		}
	}
	return true
}
