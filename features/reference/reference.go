// Package reference draws pages for people: the documents, a search in them, of the OpenAPI document those of the
// operations and of the types of errors, and the public page of the catalogue.
package reference

import (
	"embed"

	"go.yaml.in/yaml/v3"

	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/web"
)

// Feature registers this package.
var Feature = features.Feature{Name: "reference", New: func(h *features.Host) features.Parts {
	h.CataloguePage, h.ReferencePath = Catalogue, apiPath
	return features.Parts{API: Area}
}}

// Paths of the pages. errorsPath is the doc_url of errors.
const (
	sitePath, apiPath, searchPath = "/docs", "/docs/api", "/docs/search"
	errorsPath                    = web.DocsPath
)

// Area returns the pages: the documents, the search, and those of the OpenAPI document.
func Area(c *api.Core) api.Area {
	return api.Area{Document: wire.Part{Texts: texts}, Pages: func(document *yaml.Node) (map[string]*api.Page, error) {
		return newPages(document, c.BaseURL, c.Version)
	}}
}

// texts describe the operations in the OpenAPI document.
//
//go:embed openapi.yaml
var texts embed.FS

// errorTypes explains each error type on the page that doc_url links to.
var errorTypes = []struct{ kind, text string }{
	{web.InvalidRequest, "400. The request is malformed, or a parameter is outside its limits; error.param names it. " +
		"The same request gets the same answer; correct it first. A destination on your own machine or in a private " +
		"network is refused: relay-forward.mjs (under /tools) copies events to your machine, and an operator lets the " +
		"relay send to such a network with RELAY_EGRESS_ALLOW. At an ingest URL also 401: the signature does not verify, " +
		"and error.code says why; 405: only a challenge may be a GET; 431: the headers are too large."},
	{web.InvalidState, "400. The request is valid, but the current state of the resource does not allow it."},
	{web.IdempotencyMismatch, "400. The Idempotency-Key was used before with another body. Use a new key for a new " +
		"request."},
	{web.SelectionTooLarge, "400. The selection is larger than one replay may be; nothing was queued. Narrow it, or " +
		"use a recovery job."},
	{web.PayloadTooLarge, "400, at an ingest URL 413. The body is larger than the service accepts; nothing was stored."},
	{web.Conflict, "400. Another request changed the resource at the same time. Read it and try again."},
	{web.AuthenticationRequired, "401. Send an API key: `Authorization: Bearer <API_KEY>`."},
	{web.InvalidAPIKey, "401. The API key is unknown, expired or revoked."},
	{web.InsufficientScope, "403. The key may only read, or it is an agent key; the call needs another key with the " +
		"scope read_write."},
	{web.NotFound, "404. There is no such route or resource, or its retention has ended."},
	{web.RateLimited, "429. Too many requests; wait as long as Retry-After says."},
	{web.AllowanceExceeded, "429. Reserved. No route answers with it: events above the allowance are accepted."},
	{web.Internal, "500. The service failed. Its logs name the request id. Check whether a write took effect " +
		"before repeating it."},
	{web.Unavailable, "503. A part of the service is temporarily unavailable; wait as long as Retry-After says. " +
		"Check whether a write took effect before repeating it."},
	{web.Timeout, "504, at an ingest URL 408 if the body comes too slowly. The request took too long and was " +
		"abandoned. Check whether a write took effect before repeating it."},
}
