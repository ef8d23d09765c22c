package config

import (
	"cmp"

	"github.com/eventrelay/relay/pkg/verify"
)

// Response is the answer to the provider, sent when its event is durable.
type Response struct {
	Status      int    `json:"status" in:"" minimum:"200" maximum:"299" description:"Default 200."`
	ContentType string `json:"content_type" in:"" enum:"application/json,text/plain,text/xml,application/xml" description:"Default application/json."`
	Body        string `json:"body" in:"" maxLength:"16384" pattern:"^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$"`
}

// DefaultResponse is what a provider is answered unless the endpoint sets a response.
func DefaultResponse(provider string) Response {
	if a := verify.ByName(provider).Answer; a != nil {
		return Response{Status: cmp.Or(a.Status, 200), ContentType: a.ContentType, Body: a.Body}
	}
	return Response{Status: 200, ContentType: "application/json", Body: `{"received":true}`}
}
