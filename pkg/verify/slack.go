package verify

import (
	"strings"
	"time"
)

// slack reads `X-Slack-Signature: v0=<hex>` and `X-Slack-Request-Timestamp`, HMAC-SHA256 of `v0:timestamp:body`, keyed with
// the app's signing secret.
func slack(c Config, r Request) (time.Time, Reason) {
	value, reason := single(r.Header, "X-Slack-Signature")
	if reason != "" {
		return time.Time{}, reason
	}
	stamp, reason := single(r.Header, "X-Slack-Request-Timestamp")
	if reason != "" {
		return time.Time{}, reason
	}
	signedAt, timely := unixSeconds(stamp)
	signature, found := strings.CutPrefix(value, "v0=")
	if !timely || !found || !hexSHA256().wellFormed(signature) {
		return time.Time{}, SignatureMalformed
	}
	return signedAt, hexSHA256().verify(c.Secrets, message{head: "v0:" + stamp + ":", body: r.Body}, signature)
}
