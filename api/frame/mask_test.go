package frame

import "testing"

func TestMaskedURLs(t *testing.T) {
	f := func(text, capabilities, credentials string) {
		t.Helper()
		if got := MaskCapabilities(text); got != capabilities {
			t.Errorf("%s for a reading key:\n%s, want\n%s", text, got, capabilities)
		}
		if got := MaskCredentials(text); got != credentials {
			t.Errorf("%s in an attempt:\n%s, want\n%s", text, got, credentials)
		}
	}
	same := func(text string) { t.Helper(); f(text, text, text) }
	same("https://example.com")
	same("https://example.com/")
	same("http://127.0.0.1:8080")
	same("http://[::1]:8080/")
	same("https://relay")
	same("https://example.co.uk:8443/")
	for text, credentials := range map[string]string{
		"https://example.com/hooks/secretword":               "",
		"https://example.com/A1B2C":                          "",
		"https://example.com/p/k3y":                          "",
		"https://example.com/h?n=1&name=a-long-name":         "",
		"https://example.com?q=x":                            "",
		"https://example.com/h?api_key=a-secret-of-mine&n=1": "https://example.com/h?api_key=****mine&n=1",
		"https://example.com/h?%61ccess_%74oken=short":       "https://example.com/h?%61ccess_%74oken=****",
		"https://example.com/h?sig=0123456789abcdef&sv=1.0":  "https://example.com/h?sig=****cdef&sv=1.0",
		"https://example.com/h?pin=0123456789abcdef&csrf=1":  "https://example.com/h?pin=****cdef&csrf=****",
		"https://example.com/h?code=which%20ends%20with%2F1": "https://example.com/h?code=****th%2F1",
		"https://example.com/h?a-secret-without-name":        "https://example.com/h?****name",
		"https://example.com/%zz-0123456789-%":               "",
	} {
		if credentials == "" {
			credentials = text
		}
		f(text, "https://example.com/****", credentials)
	}
	same2 := func(text, capabilities string) { t.Helper(); f(text, capabilities, text) }
	same2("https://tok-abc123def.hooks.example.com/x", "https://****.example.com/****")
	same2("https://tok-abc123def.hooks.example.co.uk:8443/", "https://****.example.co.uk:8443/")
	same2("https://Tok.Example.com", "https://****.Example.com")
	same2("https://abc123.lambda-url.eu-central-1.on.aws/x", "https://****.on.aws/****")
	same2("https://token.github.io", "https://****.github.io")
	same2("https://token.hooks.internal/x", "https://****.hooks.internal/****")
	// A receiver may answer any Location.
	f("https://user:secret@example.com/h#access_token=x", "https://example.com/****", "https://****@example.com/h#****")
	f("https://user:secret@a.example.com", "https://****.example.com", "https://****@a.example.com")
	f("//example.com/h?token=x", "//example.com/****", "//example.com/h?token=****")
	f("/0123456789abcdef?token=x", "/****", "/0123456789abcdef?token=****")
	same("")
}
