package verify

import "time"

// stripe reads `Stripe-Signature: t=1760000000,v1=<hex>[,v1=<hex>…][,v0=…]`, HMAC-SHA256 of `t.body`, keyed with the whole
// secret, `whsec_` included. Several v1 come while Stripe rolls a secret; v0 is a test scheme that Stripe says to ignore, and
// other names are left for what Stripe may add.
func stripe(c Config, r Request) (time.Time, Reason) {
	value, reason := single(r.Header, "Stripe-Signature")
	if reason != "" {
		return time.Time{}, reason
	}
	stamp, signatures, ok := stampedList(value, ",", "v1=", hexSHA256())
	if !ok {
		return time.Time{}, SignatureMalformed
	}
	signedAt, ok := unixSeconds(stamp)
	if !ok {
		return time.Time{}, SignatureMalformed
	}
	return signedAt, hexSHA256().verify(c.Secrets, message{head: stamp + ".", body: r.Body}, signatures...)
}
