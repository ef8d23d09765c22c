package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/frame"
)

// operationText is what a part of the document says of an operation, under its method and path. All else follows from
// the route: parameters of the path, headers, errors, and how lists are paged. A schema is written out, or is a name.
type operationText struct {
	OperationID          string `yaml:"operationId"`
	Tag                  string // default: that of the part
	After                string // id of the operation that it follows; default: the one before it
	Summary, Description string
	Query                yaml.Node            // parameters by name
	Parameters           []string             // names of more parameters
	Body                 yaml.Node            // schema of a JSON body
	OptionalBody         yaml.Node            `yaml:"optionalBody"` // schema of a JSON body that may be left out
	Examples             yaml.Node            // of the body, as in OpenAPI
	Answer               map[string]string    // description by the name of the schema
	Status               string               // of the answer; default 200, or 201 of what creates
	Headers              []string             // names of more headers of the answer
	Links                yaml.Node            // from the answer by name; see links
	Page                 map[string]string    // description by media type, of a public page
	RequestBody          yaml.Node            `yaml:"requestBody"` // as in OpenAPI, if it is not only JSON
	Responses            yaml.Node            // more responses, as in OpenAPI
	Unknown              map[string]yaml.Node `yaml:",inline"`

	method, path string
}

// errorText describes the errors with a status.
type errorText struct {
	Name, Description string
	Headers           []string  // besides those of every answer
	Examples          yaml.Node // by type, without what all errors have
}

// operationWriter writes operations, and the components that follow from them.
type operationWriter struct {
	operations []*operationText
	errors     map[string]errorText // by status
	schemas    *yaml.Node           // of the document
}

var (
	rateHeaders   = []string{"X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
	repeatHeaders = []string{"Idempotent-Replayed", "Idempotency-Status"}
)

// read adds the operations of a part.
func (w *operationWriter) read(tag string, operations *yaml.Node) error {
	for call, text := range members(operations) {
		op := &operationText{Tag: tag}
		if err := text.Decode(op); err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		if len(op.Unknown) > 0 {
			return fmt.Errorf("%s: unknown fields %v", call, slices.Sorted(maps.Keys(op.Unknown)))
		}
		op.method, op.path, _ = strings.Cut(call, " ")
		at := len(w.operations)
		if op.After != "" {
			at = 1 + slices.IndexFunc(w.operations, func(x *operationText) bool { return x.OperationID == op.After })
		}
		w.operations = slices.Insert(w.operations, at, op)
	}
	return nil
}

// write adds all operations to the document. Each route has one, and each operation has a route or is a public page.
func (w *operationWriter) write(document *yaml.Node, routes []frame.Route) error {
	byCall := map[string]*frame.Route{}
	for i := range routes {
		for method := range routes[i].Methods {
			byCall[callName(method+" "+routes[i].Path)] = &routes[i]
		}
	}
	components, paths := member(document, "components"), mapping()
	w.schemas = member(components, "schemas")
	for _, op := range w.operations {
		call := callName(op.method + " " + op.path)
		x := byCall[call]
		if delete(byCall, call); x == nil && strings.HasPrefix(op.path, "/v1/") {
			return fmt.Errorf("%s has no route, or is described twice", call)
		}
		node, err := w.operation(op, x)
		if err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		if member(paths, op.path) == nil {
			addMember(paths, op.path, mapping())
		}
		addMember(member(paths, op.path), strings.ToLower(op.method), node)
	}
	if len(byCall) > 0 {
		return fmt.Errorf("not described: %v", slices.Sorted(maps.Keys(byCall)))
	}
	addMember(document, "paths", paths)
	addMember(components, "responses", w.errorResponses())
	return nil
}

// operation writes an operation. x is nil for a public page, which needs no key.
func (w *operationWriter) operation(op *operationText, x *frame.Route) (*yaml.Node, error) {
	headers, security := rateHeaders, (*yaml.Node)(nil)
	if x == nil {
		headers, security = rateHeaders[:1], sequence()
	} else if op.method == http.MethodPost && !x.Computes {
		headers = slices.Concat(headers, repeatHeaders)
		op.Parameters = append(op.Parameters, "IdempotencyKey")
		if x.Sends {
			op.Parameters = append(op.Parameters, "IdempotencyUnavailable")
		}
	}
	responses, err := w.answers(op, headers)
	if err != nil {
		return nil, err
	}
	for status, response := range members(&op.Responses) {
		addMember(responses, status, response)
	}
	for _, status := range slices.Sorted(maps.Keys(w.errors)) {
		if op.canFail(status, x) && member(responses, status) == nil {
			addMember(responses, status, componentRef("responses", w.errors[status].Name))
		}
	}
	parameters, err := w.parameters(op)
	if err != nil {
		return nil, err
	}
	body := &op.RequestBody
	if !op.Body.IsZero() {
		body = mapping("required", true, "content", jsonContent(&op.Body, &op.Examples))
	} else if !op.OptionalBody.IsZero() {
		body = mapping("content", jsonContent(&op.OptionalBody, &op.Examples))
	}
	return mapping("operationId", op.OperationID, "tags", sequence(textNode(op.Tag)), "summary", op.Summary,
		"description", op.Description, "security", security, "parameters", parameters, "requestBody", body,
		"responses", responses), nil
}

// variables returns the names of the variables in the path.
func (op *operationText) variables() []string {
	names := pathVariable.FindAllString(op.path, -1)
	for i, name := range names {
		names[i] = strings.Trim(name, "{}")
	}
	return names
}

// isRated reports whether a public page is so large that one address gets a limited number of it.
func isRated(path string) bool {
	return strings.HasPrefix(path, "/docs") || strings.HasPrefix(path, "/openapi")
}

// canFail reports whether an operation has errors with a status. x is nil for a public page. A 404 for what a query or
// a body names is written out.
func (op *operationText) canFail(status string, x *frame.Route) bool {
	if x == nil {
		return status == "429" && isRated(op.path)
	}
	switch status {
	case "403":
		_, always := portalOperations[op.method+" "+x.Path] // each token has config.PortalView
		return op.method != http.MethodGet || x.Leases || !always
	case "404":
		return strings.Contains(op.path, "{")
	}
	return true
}

// parameters writes the parameters of the path, the query and others.
func (w *operationWriter) parameters(op *operationText) (*yaml.Node, error) {
	all := sequence()
	for _, name := range op.variables() {
		i := slices.IndexFunc(w.schemas.Content, func(n *yaml.Node) bool {
			return strings.EqualFold(n.Value, strings.ReplaceAll(name, "_", ""))
		})
		if i < 0 {
			return nil, fmt.Errorf("no schema for %s", name)
		}
		all.Content = append(all.Content, mapping("name", name, "in", "path", "required", true,
			"schema", componentRef("schemas", w.schemas.Content[i].Value)))
	}
	for name, text := range members(&op.Query) {
		parameter := mapping("name", name, "in", "query")
		for keyword, v := range members(text) {
			if keyword == "schema" {
				v = schemaNode(v)
			}
			addMember(parameter, keyword, v)
		}
		all.Content = append(all.Content, parameter)
	}
	for _, name := range op.Parameters {
		all.Content = append(all.Content, componentRef("parameters", name))
	}
	if len(all.Content) == 0 {
		return nil, nil
	}
	return all, nil
}

// answers writes the responses of an operation that are no errors.
func (w *operationWriter) answers(op *operationText, headers []string) (*yaml.Node, error) {
	responses := mapping()
	if op.method == http.MethodDelete && op.Answer == nil {
		op.Answer = map[string]string{"Deleted": "It is deleted."}
	}
	if op.Status == "" && strings.HasPrefix(op.OperationID, "create") {
		op.Status = "201"
	}
	for schema, text := range op.Answer {
		links, err := w.links(op)
		if err != nil {
			return nil, err
		}
		if row, isList := strings.CutSuffix(schema, "List"); isList {
			w.addPages(op, row, links)
		}
		addMember(responses, cmp.Or(op.Status, "200"), mapping("description", text,
			"headers", references(headers, op.Headers), "content", jsonContent(textNode(schema), nil),
			"links", links))
	}
	for kind, text := range op.Page {
		op.Parameters = append(op.Parameters, "IfNoneMatch")
		schema := mapping("type", "object", "additionalProperties", true)
		if strings.HasPrefix(kind, "text/") {
			schema = mapping("type", "string")
		}
		headers := references(headers, []string{"ETag"})
		addMember(responses, "200", mapping("description", text, "headers", headers,
			"content", mapping(kind, mapping("schema", schema))))
		addMember(responses, "304", mapping("description", "It has not changed.", "headers", headers))
	}
	return responses, nil
}

// addPages adds the parameters of a list, the link to its next page, and its schema unless that is written out.
func (w *operationWriter) addPages(op *operationText, row string, links *yaml.Node) {
	op.Parameters = append(op.Parameters, "Limit", "Cursor")
	values := mapping()
	for _, name := range op.variables() {
		addMember(values, name, textNode("$request.path."+name))
	}
	addMember(values, "query.cursor", textNode("$response.body#/next_cursor"))
	addMember(links, "next", mapping("operationId", op.OperationID, "parameters", values))
	if list := row + "List"; member(w.schemas, list) == nil {
		rows := mapping("type", "array", "maxItems", 100, "items", componentRef("schemas", row))
		addMember(w.schemas, list, mapping("type", "object", "required", sequence(textNode("data")), "properties",
			mapping("data", rows, "next_cursor", componentRef("schemas", "NextCursor"))))
	}
}

// links writes the links from an answer to other operations. The last variable in the path of the other operation is
// the id in the answer, or another field if it is named: {readEvent: data/0/id}. A variable before it is that of the
// request, or the id in the answer if the request has none.
func (w *operationWriter) links(op *operationText) (*yaml.Node, error) {
	links := mapping()
	for name, link := range members(&op.Links) {
		if member(link, "operationId") != nil { // as in OpenAPI
			addMember(links, name, link)
			continue
		}
		id, field := link.Value, "id"
		for to, from := range members(link) {
			id, field = to, from.Value
		}
		i := slices.IndexFunc(w.operations, func(other *operationText) bool { return other.OperationID == id })
		if i < 0 {
			return nil, fmt.Errorf("link to %s, which is no operation", id)
		}
		values := mapping()
		variables := w.operations[i].variables()
		for j, name := range variables {
			value := "$response.body#/id"
			if j == len(variables)-1 {
				value = "$response.body#/" + field
			} else if slices.Contains(op.variables(), name) {
				value = "$request.path." + name
			}
			addMember(values, name, textNode(value))
		}
		addMember(links, name, mapping("operationId", id, "parameters", values))
	}
	return links, nil
}

// errorResponses writes the responses with errors.
func (w *operationWriter) errorResponses() *yaml.Node {
	responses := mapping()
	for _, status := range slices.Sorted(maps.Keys(w.errors)) {
		e, headers, examples := w.errors[status], rateHeaders, mapping()
		if status == "401" {
			headers = rateHeaders[:1] // the rate is that of a key
		}
		for kind, text := range members(&e.Examples) {
			failure := mapping("type", kind)
			failure.Content = slices.Concat(failure.Content, text.Content, mapping("doc_url",
				"https://relay.example.com/docs/errors#"+kind, "request_id", "req_2gk4m0v6x8ctq1zj5n7rbw3ye9").Content)
			addMember(examples, kind, mapping("value", mapping("error", failure)))
		}
		addMember(responses, e.Name, mapping("description", e.Description, "headers", references(headers, e.Headers),
			"content", jsonContent(textNode("Error"), examples)))
	}
	return responses
}

// schemaNode returns a schema that is written out, or the reference to the one that is named.
func schemaNode(schema *yaml.Node) *yaml.Node {
	if schema.Kind == yaml.ScalarNode {
		return componentRef("schemas", schema.Value)
	}
	return schema
}

// jsonContent describes a JSON body.
func jsonContent(schema, examples *yaml.Node) *yaml.Node {
	return mapping("application/json", mapping("schema", schemaNode(schema), "examples", examples))
}

// references returns references to headers by name. Revision is the ETag of an endpoint, as opposed to that of a page.
func references(headers ...[]string) *yaml.Node {
	n := mapping()
	for _, name := range slices.Concat(headers...) {
		addMember(n, strings.Replace(name, "Revision", "ETag", 1), componentRef("headers", name))
	}
	return n
}
