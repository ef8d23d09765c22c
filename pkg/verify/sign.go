package verify

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Sign adds the headers that a provider would send with the request, so that Check takes it: the signature made with the
// first secret, at the request's time. For Standard Webhooks the request has its Webhook-Id already.
func Sign(c Config, r Request) error {
	if len(c.Secrets) == 0 {
		return errors.New("sign: there is no secret")
	}
	key, stamp := c.Secrets[0], strconv.FormatInt(r.Now.Unix(), 10)
	mac := func(f macForm, m message) string { return string(f.appendMAC(nil, key, m)) }
	set := func(name, value string) { r.Header[http.CanonicalHeaderKey(name)] = []string{value} }
	switch c.Type {
	case Stripe:
		set("Stripe-Signature", "t="+stamp+",v1="+mac(hexSHA256(), message{head: stamp + ".", body: r.Body}))
	case GitHub:
		set("X-Hub-Signature-256", "sha256="+mac(hexSHA256(), message{body: r.Body}))
	case Shopify:
		set("X-Shopify-Hmac-Sha256", mac(base64SHA256(), message{body: r.Body}))
	case Slack:
		set("X-Slack-Request-Timestamp", stamp)
		set("X-Slack-Signature", "v0="+mac(hexSHA256(), message{head: "v0:" + stamp + ":", body: r.Body}))
	case Twilio:
		fields, ok := signedFields(r.Body)
		if !ok {
			return errors.New("sign: the body is no form")
		}
		set("X-Twilio-Signature", mac(base64SHA1(), message{head: r.URL, body: fields}))
	case StandardWebhooks:
		var err error
		if key, err = standardKey(key); err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		set("Webhook-Timestamp", stamp)
		set("Webhook-Signature", "v1,"+mac(base64SHA256(), message{head: r.Header.Get("Webhook-Id") + "." + stamp + ".", body: r.Body}))
	case HMAC:
		return c.signCustom(r, stamp, mac, set)
	default:
		return fmt.Errorf("sign: unknown scheme %q", c.Type)
	}
	return nil
}

// signCustom signs by the configurable scheme.
func (c Config) signCustom(r Request, stamp string, mac func(macForm, message) string, set func(name, value string)) error {
	form, known := newMACForm(c.algorithm(), c.encoding())
	t, err := parseTemplate(c.template())
	if !known || err != nil {
		return fmt.Errorf("sign: scheme of the endpoint: %w", errors.Join(err))
	}
	value := c.Prefix + mac(form, t.fill(stamp, r.Body))
	switch {
	case t.inList():
		value = "t=" + stamp + "," + value
	case t.header != "":
		set(t.header, stamp)
	}
	set(cmp.Or(c.Header, defaultHeader), strings.TrimSpace(value))
	return nil
}
