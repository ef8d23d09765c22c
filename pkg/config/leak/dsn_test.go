package leak

import (
	"strings"
	"testing"
)

// The text of a salt is what docs/design/reports.md says: base62, most significant digit first.
func TestPublicKeyFormat(t *testing.T) {
	for text, want := range map[string]string{
		"0000000000000000000000": strings.Repeat("\x00", 16),
		"000000000000000000000z": strings.Repeat("\x00", 15) + "\x3d",
		"0000000000000000000010": strings.Repeat("\x00", 15) + "\x3e",
		"7n42DGM5Tflk9n8mt7Fhc7": strings.Repeat("\xff", 16),
	} {
		_, salt, ok := splitPublicKey("pk" + strings.Repeat("A", 22) + text)
		if !ok || string(salt) != want || encodeBase62(salt, base62Length) != text {
			t.Errorf("%s: %x, %v", text, salt, ok)
		}
	}
	for _, text := range []string{"7n42DGM5Tflk9n8mt7Fhc8", "zzzzzzzzzzzzzzzzzzzzzz", "000000000000000000000-", ""} {
		if _, salt, ok := splitPublicKey("pk" + strings.Repeat("A", 22) + text); ok {
			t.Errorf("%s: %x", text, salt)
		}
	}
}

// Origins are written as browsers send them, and compared as a whole.
func TestOrigins(t *testing.T) {
	for text, want := range map[string]string{
		"https://App.Example.com": "https://app.example.com", "https://a.example:443/": "https://a.example",
		"http://localhost:3000": "http://localhost:3000", "http://a.example:80": "http://a.example",
		"https://*.example.com": "https://*.example.com", "http://[::1]:3000": "http://[::1]:3000",
		"HTTPS://a.example": "https://a.example", "https://a.example:80": "https://a.example:80",
		"http://a.example:443": "http://a.example:443", "https://a.example:": "https://a.example",
		"https://" + strings.Repeat("a", maxOrigin-8): "https://" + strings.Repeat("a", maxOrigin-8),
		"https://" + strings.Repeat("a", maxOrigin-7): "", "https://:443": "", "https://[::1": "", "https://a~b": "",
		"": "", "*": "", "example.com": "", "ftp://a.example": "", "https://": "", "https://a.example/x": "",
		"https://u:p@a.example": "", "https://a.example?x": "", "https://a.example#x": "", "https://*.*.a": "",
		"https://a.*.example": "", "https://ä.example": "", "https://a b": "", "https://a.example\n": "", "null": "",
		"https://a.example:x": "", "https://" + strings.Repeat("a", 300): "",
	} {
		got, err := ParseOrigin(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	d := &DSN{}
	if !d.AllowsOrigin("https://any.example") || !d.AllowsOrigin("") {
		t.Error("without a list all origins are allowed")
	}
	d.AllowedOrigins = []string{"https://a.example", "https://*.b.example:8443"}
	for origin, want := range map[string]bool{
		"https://a.example": true, "https://x.b.example:8443": true, "https://x.y.b.example:8443": true,
		"": false, "null": false, "http://a.example": false, "https://a.example:444": false, "https://xa.example": false,
		"https://b.example:8443": false, "https://xb.example:8443": false, "https://a.example.evil": false,
		"http://x.b.example:8443": false, "https://x.b.example": false,
	} {
		if d.AllowsOrigin(origin) != want {
			t.Errorf("%q: %v", origin, !want)
		}
	}
}
