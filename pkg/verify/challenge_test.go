package verify

import (
	"net/http"
	"strings"
	"testing"
)

func TestChallenge(t *testing.T) {
	const hook = "https://relay.example.com/in/tok"
	f := func(method, query, body, want string) {
		t.Helper()
		got, ok := Challenge(Request{Method: method, URL: hook + query, Body: []byte(body)})
		if got != want || ok != (want != "") {
			t.Errorf("%s %s %s: got %q %v, want %q", method, query, body, got, ok, want)
		}
	}
	// The examples of the providers' documentation.
	f(http.MethodPost, "", `{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl",`+
		`"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`,
		"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P")
	f(http.MethodGet, "?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meatyhamhock", "", "1158201444")
	f(http.MethodGet, "?challenge=xG6iDZ-dropbox_1", "", "xG6iDZ-dropbox_1")

	f(http.MethodGet, "?challenge=a%2Bb%3D", "", "a+b=")
	f(http.MethodGet, "?challenge=one&hub.challenge=two", "", "two")
	f(http.MethodGet, "?challenge=one&challenge=two", "", "one")
	f(http.MethodGet, "?challenge="+strings.Repeat("%41", maxChallenge), "", strings.Repeat("A", maxChallenge))

	f(http.MethodGet, "", "", "")
	f(http.MethodGet, "?challenge=", "", "")
	f(http.MethodGet, "?xchallenge=a&hub.challenges=b", "", "")
	f(http.MethodGet, "?challenge=%zz", "", "")
	f(http.MethodGet, "?hub.challenge=%zz&challenge=a", "", "a")
	f(http.MethodGet, "?challenge=a+b", "", "")
	f(http.MethodGet, "?challenge=a{b}", "", "")
	f(http.MethodGet, "?challenge=a[b]", "", "")
	f(http.MethodGet, "?challenge=%3Cscript%3E", "", "")
	f(http.MethodGet, "?challenge=a%0d%0ab", "", "")
	f(http.MethodGet, "?challenge="+strings.Repeat("a", maxChallenge+1), "", "")
	f(http.MethodGet, "?challenge="+strings.Repeat("%41", maxChallenge+1), "", "")
	f(http.MethodGet, "", `{"type":"url_verification","challenge":"a"}`, "")
	f(http.MethodHead, "?challenge=a", "", "")
	f(http.MethodPost, "?challenge=a", "", "")
	f(http.MethodPut, "", `{"type":"url_verification","challenge":"a"}`, "")
	f(http.MethodPost, "", `{"type":"event_callback","challenge":"a","x":"url_verification"}`, "")
	f(http.MethodPost, "", `{"type":"url_verification","challenge":"<b>"}`, "")
	f(http.MethodPost, "", `{"type":"url_verification","challenge":1}`, "")
	f(http.MethodPost, "", `{"type":"url_verification"}`, "")
	f(http.MethodPost, "", `url_verification`, "")
	f(http.MethodPost, "", `{"type":"url_verification","challenge":"a"`+strings.Repeat(" ", maxChallengeBody)+`}`, "")
}
