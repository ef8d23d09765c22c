package api_test

import "testing"

// Twilio treats a response that is not TwiML as an error. The default response follows the provider until a request
// sets another.
func TestDefaultAnswerFollowsTheProvider(t *testing.T) {
	c := newClient(t)
	want := func(a *answer, contentType, body string) *answer {
		t.Helper()
		if a.Status > 201 || a.text("response.content_type") != contentType || a.text("response.body") != body {
			t.Errorf("%d %v", a.Status, a.Body["response"])
		}
		return a
	}
	const json, received = "application/json", `{"received":true}`
	plain := want(c.do("POST", "/v1/endpoints", map[string]any{"url": "https://example.com/h"}), json, received)
	twilio := want(c.do("POST", "/v1/endpoints", map[string]any{"url": "https://example.com/h", "provider": "twilio"}),
		"text/xml", "<Response/>")
	// Without provider, the type of the verification sets it.
	want(c.do("POST", "/v1/endpoints", map[string]any{
		"url": "https://example.com/h", "verification": map[string]any{"type": "twilio", "secret": "12345"},
	}), "text/xml", "<Response/>")
	want(c.do("POST", "/v1/endpoints", map[string]any{
		"url": "https://example.com/h", "provider": "twilio",
		"response": map[string]any{"content_type": json, "body": received},
	}), json, received)

	own := "/v1/endpoints/" + plain.text("id")
	want(c.do("PATCH", own, `{"provider":"twilio"}`), "text/xml", "<Response/>")
	want(c.do("PATCH", own, `{"response":{"body":"<Response></Response>"}}`), "text/xml", "<Response></Response>")
	want(c.do("PATCH", own, `{"provider":"generic"}`), "text/xml", "<Response></Response>")
	want(c.do("PATCH", own, `{"response":null}`), json, received)
	want(c.do("PATCH", "/v1/endpoints/"+twilio.text("id"), `{"provider":"slack"}`), json, received)
}
