package verify_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/verify"
)

// A provider signs `timestamp.body` and sends the timestamp inside the signature header. Its old secret is still valid.
func Example() {
	config := verify.Config{
		Type:          verify.HMAC,
		Secrets:       []string{"new secret", "old secret"},
		Tolerance:     verify.DefaultTolerance,
		Header:        "X-Acme-Signature",
		Prefix:        "v1=",
		SignedContent: "{timestamp}.{body}",
	}
	if err := config.Validate(); err != nil {
		fmt.Println(err)
	}

	request := verify.Request{
		Method: http.MethodPost,
		URL:    "https://relay.example.com/in/tok",
		Header: http.Header{"X-Acme-Signature": {
			"t=1760000000,v1=7f34de0697eb35ced5051da97f7f5b1f93bd385fe78eec2ab0da1988383849f8"}},
		Body: []byte(`{"type":"order.created"}`),
		Now:  time.Unix(1760000003, 0),
	}
	fmt.Printf("valid: %q\n", verify.Check(config, request))

	request.Body = []byte(`{"type":"order.deleted"}`)
	fmt.Printf("changed: %q\n", verify.Check(config, request))

	// Output:
	// valid: ""
	// changed: "signature_mismatch"
}
