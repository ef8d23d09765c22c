package verify

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/google/go-cmp/cmp"
)

// faults returns the invalid members, in order.
func faults(err error) []string {
	var params []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			var fault *Fault
			if errors.As(each, &fault) {
				params = append(params, fault.Param)
			}
		}
	}
	return params
}

func TestValidate(t *testing.T) {
	f := func(change func(*Config), params ...string) {
		t.Helper()
		c := Config{Type: HMAC, Secrets: []string{"s3cret"}, Tolerance: DefaultTolerance}
		change(&c)
		is.Equal(t, cmp.Diff(params, faults(c.Validate())), "", "%+v: params (-want +got)", c)
	}
	f(func(*Config) {})
	f(func(c *Config) { *c = Config{} }, "type", "secret", "tolerance_seconds")

	for _, scheme := range []string{Stripe, GitHub, Shopify, Slack, Twilio, StandardWebhooks, HMAC} {
		f(func(c *Config) { c.Type, c.Secrets = scheme, []string{otherSecret} })
	}
	f(func(c *Config) { c.Type = "generic" }, "type")
	f(func(c *Config) { c.Type = "Stripe" }, "type")

	f(func(c *Config) { c.Secrets = []string{"a", "b", "c"} })
	f(func(c *Config) { c.Secrets = []string{"a", "b", "c", "d"} }, "secrets")
	f(func(c *Config) { c.Secrets = []string{""} }, "secret")
	f(func(c *Config) { c.Secrets = []string{"a", " b", "c\n"} }, "secrets[1]", "secrets[2]")
	f(func(c *Config) { c.Secrets = []string{"a\xff"} }, "secret")
	f(func(c *Config) { c.Secrets = []string{"a\nb"} }, "secret")
	f(func(c *Config) { c.Secrets = []string{strings.Repeat("a", MaxSecret)} })
	f(func(c *Config) { c.Secrets = []string{strings.Repeat("a", MaxSecret+1)} }, "secret")
	f(func(c *Config) { c.Secrets = []string{"größe"} })
	f(func(c *Config) { c.Type, c.Secrets = StandardWebhooks, []string{otherSecret, otherSecret[6:]} })
	f(func(c *Config) { c.Type, c.Secrets = StandardWebhooks, []string{"s3cret"} }, "secret")
	f(func(c *Config) { c.Type, c.Secrets = StandardWebhooks, []string{"whsec_", otherSecret} }, "secrets[0]")

	f(func(c *Config) { c.Tolerance = 0 }, "tolerance_seconds")
	f(func(c *Config) { c.Tolerance = -time.Second }, "tolerance_seconds")
	f(func(c *Config) { c.Tolerance = time.Second })
	f(func(c *Config) { c.Tolerance = 24 * time.Hour })
	f(func(c *Config) { c.Tolerance = 24*time.Hour + 1 }, "tolerance_seconds")

	f(func(c *Config) {
		c.Header, c.Algorithm, c.Encoding, c.Prefix = "X-Acme-Signature", "sha512", "base64", "HMAC "
	})
	f(func(c *Config) { c.Header = "X-AZ-az-09" })
	f(func(c *Config) { c.Header = strings.Repeat("x", maxName) })
	f(func(c *Config) { c.Header = "X Acme" }, "header")
	f(func(c *Config) { c.Header = "X-Größe" }, "header")
	f(func(c *Config) { c.Header = strings.Repeat("x", maxName+1) }, "header")
	f(func(c *Config) { c.Algorithm = "md5" }, "algorithm")
	f(func(c *Config) { c.Encoding = "base32" }, "encoding")
	f(func(c *Config) { c.Prefix = " sha256=" }, "prefix")
	f(func(c *Config) { c.Prefix = "sha256\t" }, "prefix")
	f(func(c *Config) { c.Prefix = "größe=" }, "prefix")
	f(func(c *Config) { c.Prefix = "\x7f" }, "prefix")
	f(func(c *Config) { c.Prefix = strings.Repeat("~", maxPrefix) })
	f(func(c *Config) { c.Prefix = strings.Repeat("x", maxPrefix+1) }, "prefix")

	f(func(c *Config) { c.SignedContent = "{timestamp}.{body}" })
	f(func(c *Config) { c.SignedContent = "v0:{timestamp:X-Ts}:{body}:{timestamp:X-Ts}" })
	f(func(c *Config) { c.SignedContent = "body" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{body}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{body}{url}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp{body}}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{body}{timestamp" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamps}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp:}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp:X Ts}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{timestamp}{timestamp:X-Ts}{body}" }, "signed_content")
	f(func(c *Config) { c.SignedContent = "{body}" + strings.Repeat("x", maxTemplate-6) })
	f(func(c *Config) { c.SignedContent = "{body}" + strings.Repeat("x", maxTemplate-5) }, "signed_content")
	f(func(c *Config) { c.SignedContent, c.Prefix = "{timestamp}.{body}", "a,b=" }, "prefix")
	f(func(c *Config) { c.SignedContent, c.Prefix = "{timestamp}.{body}", "t=" }, "prefix")
	f(func(c *Config) { c.SignedContent, c.Prefix = "{timestamp:X-Ts}.{body}", "t=" })

	// Other schemes ignore the members of the configurable scheme.
	f(func(c *Config) { c.Type, c.Algorithm, c.Header, c.SignedContent = Stripe, "md5", "X Y", "x" })
}

func TestFaultsDoNotContainSecrets(t *testing.T) {
	c := Config{Type: StandardWebhooks, Secrets: []string{"whsec_hunter2\x00", strings.Repeat("hunter2", 100), "hunter2 "}}
	is.Lacks(t, c.Validate().Error(), "hunter2")
}
