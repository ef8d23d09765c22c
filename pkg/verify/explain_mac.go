package verify

import (
	"crypto/sha1"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// maxReceived limits the signatures that are read from a header.
const maxReceived = 16

// Encodings of a received signature, besides hexText and base64Text.
const (
	upperHexText    = "upper-case hex"
	otherBase64Text = "base64 without padding or in the URL alphabet"
)

// receivedMAC is a text in a signature header that may be a MAC.
type receivedMAC struct {
	text     string
	encoding string
	raw      []byte
}

// receivedMACs returns the texts in a header that may be MACs, in any form that a sender may use: hex or base64, alone,
// in a list, after a prefix.
func receivedMACs(value string) (all []receivedMAC) {
	for item := range items(value, listSeparators) {
		starts := []int{0}
		if i := strings.IndexAny(item, "=:"); i >= 0 {
			starts = append(starts, i+1)
		}
		for _, start := range starts {
			if raw, encoding := decodeMAC(item[start:]); raw != nil && len(all) < maxReceived {
				all = append(all, receivedMAC{item[start:], encoding, raw})
			}
		}
	}
	return all
}

// decodeMAC decodes a MAC in hex or base64 and returns its encoding; nil if the text is none.
func decodeMAC(text string) (raw []byte, encoding string) {
	isMAC := func(b []byte, err error) bool {
		return err == nil && slices.Contains([]int{sha1.Size, 32, sha512.Size}, len(b))
	}
	if b, err := hex.DecodeString(text); isMAC(b, err) {
		if !everyByte(text, isLowerHex) {
			return b, upperHexText
		}
		return b, hexText
	}
	if b, err := base64.StdEncoding.DecodeString(text); isMAC(b, err) {
		return b, base64Text
	}
	for _, other := range []*base64.Encoding{base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if b, err := other.DecodeString(text); isMAC(b, err) {
			return b, otherBase64Text
		}
	}
	return nil, ""
}
