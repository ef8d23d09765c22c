package verify

import (
	"fmt"
	"time"
)

// Stripe is the name of the provider Stripe and of its verification type.
const Stripe = "stripe"

var stripe = Scheme{
	Name: Stripe, Title: "Stripe", TypeSource: "body:$.type", check: checkStripe, sign: signStripe, layout: stripeLayout,
	secretsOfOtherUse: map[string]string{"sk_": "a secret API key", "rk_": "a restricted API key",
		"pk_": "a publishable API key"},
	Sample: Sample{
		Type: "payment_intent.succeeded", UserAgent: "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
		ContentType: jsonType + "; charset=utf-8", Body: stripeSample,
	},
}

const stripeHeader = "Stripe-Signature"

// checkStripe reads `Stripe-Signature: t=1760000000,v1=<hex>[,v1=<hex>…][,v0=…]`, HMAC-SHA256 of `t.body`, keyed with
// the whole secret, `whsec_` included. There are several v1 while a secret is rotated. v0 is a test scheme that Stripe
// says to ignore; items with other names are ignored too.
func checkStripe(c Config, r Request) (time.Time, Reason) {
	value, reason := singleValue(r.Header, stripeHeader)
	if reason != "" {
		return time.Time{}, reason
	}
	stamp, signatures, ok := parseSignatureList(value, ",", "v1=", hexSHA256())
	if !ok {
		return time.Time{}, SignatureMalformed
	}
	signedAt, ok := parseUnixSeconds(stamp)
	if !ok {
		return time.Time{}, SignatureMalformed
	}
	return signedAt, hexSHA256().verify(c.Secrets, message{head: stamp + ".", body: r.Body}, signatures...)
}

func stripeLayout(Config, Request) layout {
	return layout{
		header: stripeHeader, separators: ",", prefix: "v1=", form: hexSHA256(),
		content: template{head: "{timestamp}.", placeholder: "{timestamp}"},
	}
}

func signStripe(c Config, r Request, stamp string) error {
	setHeader(r, stripeHeader, "t="+stamp+",v1="+hexSHA256().sign(c, message{head: stamp + ".", body: r.Body}))
	return nil
}

func stripeSample(x SampleValues) string {
	return fmt.Sprintf(`{"id":"evt_%s","object":"event","api_version":"2026-06-30","created":%d,"type":%q,`+
		`"livemode":false,`+
		`"pending_webhooks":1,"request":{"id":null,"idempotency_key":null},"data":{"object":{"id":"pi_%s",`+
		`"object":"payment_intent","amount":4200,"currency":"eur","status":"succeeded","metadata":{"sample":"true"}}}}`,
		x.ID, x.unix(), x.Type, x.ID)
}
