package verify

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/test/is"
)

func TestSignedFields(t *testing.T) {
	f := func(body, want string, ok bool) {
		t.Helper()
		got, gotOK := signedFields([]byte(body))
		if string(got) != want || gotOK != ok {
			t.Errorf("%q: got %q %v, want %q %v", body, got, gotOK, want, ok)
		}
	}
	f("", "", true)
	f("a=1", "a1", true)
	f("b=2&a=1", "a1b2", true)
	f("B=2&a=1", "B2a1", true)
	f("a=10&a=2&a=10", "a10a2", true)
	f("a&b=&=c&&", "cab", true)
	f("a=b=c", "ab=c", true)
	f("a+b=%2B%20%c3%A9;", "a b+ é;", true)
	f("a=%", "", false)
	f("a=%4", "", false)
	f("%4g=a", "", false)
	f(strings.Repeat("a&", maxFormFields-1), "a", true)
	f(strings.Repeat("a&", maxFormFields), "", false)
}

func TestSignedURLs(t *testing.T) {
	f := func(address string, want ...string) {
		t.Helper()
		is.Equal(t, cmp.Diff(want, signedURLs(address)), "", "%s (-want +got)", address)
	}
	f("https://h/in/t", "https://h/in/t", "https://h:443/in/t")
	f("http://h", "http://h", "http://h:80")
	f("https://h:8443/in/t", "https://h/in/t", "https://h:8443/in/t")
	f("https://[::1]/x", "https://[::1]/x", "https://[::1]:443/x")
	f("https://[::1]:8443/x", "https://[::1]/x", "https://[::1]:8443/x")
	f("https://h?a=1", "https://h?a=1", "https://h:443?a=1")
	f("https://h/?a=b:c", "https://h/?a=b:c", "https://h:443/?a=b:c", "https://h/?a=b%3Ac", "https://h:443/?a=b%3Ac")
	f("https://h/?a=%7e+&&b", "https://h/?a=%7e+&&b", "https://h:443/?a=%7e+&&b", "https://h/?a=~%20&b=",
		"https://h:443/?a=~%20&b=")
	f("https://h/x?", "https://h/x?", "https://h:443/x?")
	f("https://h/?a=%zz", "https://h/?a=%zz", "https://h:443/?a=%zz")
	f("https://h/?%zz=a", "https://h/?%zz=a", "https://h:443/?%zz=a")
	f("https://h/?a=09azAZ[{:", "https://h/?a=09azAZ[{:", "https://h:443/?a=09azAZ[{:", "https://h/?a=09azAZ%5B%7B%3A",
		"https://h:443/?a=09azAZ%5B%7B%3A")
	f("/in/t", "/in/t")
}

// A signature is not valid for another body, whatever its Content-Type: neither for one that is not a form nor for one
// with another hash.
func TestTwilioBodyIsAlwaysCovered(t *testing.T) {
	all, now := vectors(t)
	for _, v := range all {
		if v.Type != Twilio {
			continue
		}
		r := v.request(now)
		for _, contentType := range []string{"", "application/json", "text/plain"} {
			r.Header.Set("Content-Type", contentType)
			want(t, v.config(), r, "")
			changed := r
			changed.Body = []byte(`{"forged":true}`)
			want(t, v.config(), changed, SignatureMismatch)
		}
		r.URL += "x"
		want(t, v.config(), r, SignatureMismatch)
	}
}

// A megabyte of separators is rejected before any memory is allocated for it.
func TestTwilioFormIsBounded(t *testing.T) {
	body := bytes.Repeat([]byte("a&"), 1<<19)
	if n := testing.AllocsPerRun(10, func() { signedFields(body) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
