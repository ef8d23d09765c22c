package relay

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tolerance is how far the time of a delivery may be from now.
const tolerance = 5 * time.Minute

// Verifier verifies deliveries of one destination by Standard Webhooks.
type Verifier struct {
	secrets [][]byte
	public  []ed25519.PublicKey
}

// NewVerifier takes the destination's signing.secret (whsec_…) or its signing.public_key (whpk_…). With several, for
// a rotation, each of them verifies.
func NewVerifier(keys ...string) (*Verifier, error) {
	v := &Verifier{}
	for _, text := range keys {
		kind, encoded, _ := strings.Cut(text, "_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case err == nil && kind == "whsec" && len(key) >= 24:
			v.secrets = append(v.secrets, key)
		case err == nil && kind == "whpk" && len(key) == ed25519.PublicKeySize:
			v.public = append(v.public, key)
		default:
			return nil, errors.New("a key is neither whsec_ with at least 24 bytes in base64, nor whpk_ with 32")
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key")
	}
	return v, nil
}

// Verify returns the id of a delivery, by which to handle it once, if its signature is right and at most five minutes
// old. Answer any error with 401. Give it the body as it was received, before anything decodes it.
func (v *Verifier) Verify(header http.Header, body []byte) (id string, err error) {
	return v.verify(header, body, time.Now())
}

func (v *Verifier) verify(header http.Header, body []byte, now time.Time) (string, error) {
	prefix := "webhook-"
	if header.Get("relay-webhook-signature") != "" {
		prefix = "relay-webhook-" // the others are the provider's
	}
	id, sent := header.Get(prefix+"id"), header.Get(prefix+"timestamp")
	if id == "" || strings.Contains(id, ".") {
		return "", errors.New("the id is missing or has a full stop, which would move the body's beginning")
	}
	seconds, err := strconv.ParseUint(sent, 10, 62)
	if err != nil {
		return "", fmt.Errorf("the timestamp is missing or malformed: %w", err)
	}
	if age := now.Sub(time.Unix(int64(seconds), 0)).Abs(); age > tolerance {
		return "", fmt.Errorf("the timestamp is %s from now", age.Round(time.Second))
	}
	signed := append([]byte(id+"."+sent+"."), body...)
	for _, signature := range strings.Fields(header.Get(prefix + "signature")) {
		version, encoded, _ := strings.Cut(signature, ",")
		if given, err := base64.StdEncoding.DecodeString(encoded); err == nil && v.matches(version, signed, given) {
			return id, nil
		}
	}
	return "", errors.New("no signature matches")
}

func (v *Verifier) matches(version string, signed, given []byte) bool {
	switch version {
	case "v1":
		for _, secret := range v.secrets {
			mac := hmac.New(sha256.New, secret)
			mac.Write(signed)
			if hmac.Equal(mac.Sum(nil), given) {
				return true
			}
		}
	case "v1a":
		for _, key := range v.public {
			if ed25519.Verify(key, signed, given) {
				return true
			}
		}
	}
	return false
}
