package sign_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verify returns an error unless the relay has signed this delivery with secret within the last five minutes.
// Give it the body as it was received, before anything decodes it.
func Verify(secret string, header http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 24 {
		return errors.New("the secret is missing, too short or not base64")
	}
	id, sent := header.Get("webhook-id"), header.Get("webhook-timestamp")
	if id == "" || strings.Contains(id, ".") {
		return errors.New("the id is missing or contains a full stop, which would move the body's beginning")
	}
	unix, err := strconv.ParseInt(sent, 10, 64)
	if age := time.Since(time.Unix(unix, 0)); err != nil || age.Abs() > 5*time.Minute {
		return errors.New("the timestamp is missing or too far from now")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + sent + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	for _, signature := range strings.Fields(header.Get("webhook-signature")) {
		if encoded, ok := strings.CutPrefix(signature, "v1,"); ok {
			if got, err := base64.StdEncoding.DecodeString(encoded); err == nil && hmac.Equal(got, want) {
				return nil
			}
		}
	}
	return errors.New("no signature matches")
}
