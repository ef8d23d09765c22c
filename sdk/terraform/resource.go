package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	relay "github.com/eventrelay/relay/sdk/go"
)

// first is the attribute of an endpoint with its first destination.
const first = "destination"

// managed is a resource of a kind.
type managed struct {
	kind
	client *relay.Client
}

func (m *managed) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + m.name
}

func (m *managed) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{Description: m.description, Attributes: schemas(m.attributes())}
}

func (m *managed) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	m.client, _ = req.ProviderData.(*relay.Client) // nil while the configuration is only validated
}

// call makes a call of the API. The names in the path are attributes of values.
func (m *managed) call(ctx context.Context, operation string, values tftypes.Value, body any) (object, error) {
	method, route, _ := strings.Cut(operation, " ")
	route = inPath.ReplaceAllStringFunc(route, func(name string) string {
		return url.PathEscape(textOf(values, strings.Trim(name, "{}")))
	})
	options := []relay.Option{}
	if method == http.MethodPost {
		options = append(options, relay.WithIdempotencyKey(rand.Text()))
	}
	var answer json.RawMessage
	if err := m.client.Call(ctx, method, route, nil, body, &answer, options...); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, route, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	var out object
	return out, decoder.Decode(&out)
}

var inPath = regexp.MustCompile(`{[a-z_]+}`)

// textOf returns the text of an attribute; empty if it is not set.
func textOf(v tftypes.Value, name string) (text string) {
	_ = member(v, name, tftypes.String).As(&text)
	return text
}

func failed(err error) bool {
	var refused *relay.APIError
	return err != nil && !(errors.As(err, &refused) && refused.Status == http.StatusNotFound)
}

// report adds an error to the diagnostics, at the attribute that it names.
func report(d *diag.Diagnostics, what string, err error) {
	var refused *relay.APIError
	if errors.As(err, &refused) && refused.Param != nil {
		name, _, _ := strings.Cut(*refused.Param, ".")
		d.AddAttributeError(path.Root(name), what, err.Error())
		return
	}
	d.AddError(what, err.Error())
}

func (m *managed) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	body, err := bodyOf(m.attributes(), req.Plan.Raw, tftypes.Value{})
	if err == nil {
		m.split(body)
		var answer object
		if answer, err = m.call(ctx, m.create, req.Plan.Raw, body); err == nil {
			err = m.store(&resp.State, answer, req.Plan.Raw, true)
		}
	}
	if err != nil {
		report(&resp.Diagnostics, "The "+m.name+" was not created", err)
	}
}

// split makes the body of a request: the first destination of an endpoint is one of a list.
func (m *managed) split(body object) {
	for _, name := range m.path {
		delete(body, name)
	}
	if one, ok := body[first]; ok && m.name == "endpoint" {
		delete(body, first)
		body["destinations"] = []any{one}
	}
}

// store writes the state after an answer of the service.
func (m *managed) store(into *tfsdk.State, answer object, before tftypes.Value, changed bool) error {
	answer = maps.Clone(answer)
	for _, name := range m.kind.path { // not all answers have them
		answer[name] = textOf(before, name)
	}
	switch {
	case m.id == "" && len(m.kind.path) > 0:
		answer["id"] = answer[m.kind.path[len(m.kind.path)-1]]
	case m.id == "":
		answer["id"] = m.name
	}
	if m.name == "endpoint" {
		all, _ := answer["destinations"].([]any)
		known := textOf(member(before, first, tftypes.DynamicPseudoType), "id")
		i := slices.IndexFunc(all, func(x any) bool { return x.(object)["id"] == known })
		if len(all) > 0 {
			answer[first] = all[max(0, i)]
		}
	}
	state, err := stateOf(m.attributes(), into.Schema.Type().TerraformType(context.Background()), answer, before, changed)
	into.Raw = state
	return err
}

func (m *managed) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	answer, err := m.find(ctx, req.State.Raw)
	switch {
	case failed(err):
		report(&resp.Diagnostics, "The "+m.name+" cannot be read", err)
	case err != nil || answer == nil:
		resp.State.RemoveResource(ctx) // somebody has deleted it
	default:
		if err := m.store(&resp.State, answer, req.State.Raw, false); err != nil {
			report(&resp.Diagnostics, "The answer about the "+m.name+" cannot be read", err)
		}
	}
}

// find reads the resource, nil if it is not listed. A list is read page by page.
func (m *managed) find(ctx context.Context, state tftypes.Value) (object, error) {
	operation := m.read
	for {
		answer, err := m.call(ctx, operation, state, nil)
		if err != nil || m.within == "" {
			return answer, err
		}
		rows, _ := answer[m.within].([]any)
		for _, row := range rows {
			if x := row.(object); x["id"] == textOf(state, "id") && x["revoked_at"] == nil {
				return x, nil
			}
		}
		next, _ := answer["next_cursor"].(string)
		if next == "" {
			return nil, nil
		}
		operation = m.read + "?cursor=" + url.QueryEscape(next)
	}
}

func (m *managed) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	before := req.State.Raw
	if strings.HasPrefix(m.update, http.MethodPut) {
		before = tftypes.Value{} // everything is replaced
	}
	body, err := bodyOf(m.attributes(), req.Plan.Raw, before)
	if one, ok := body[first].(object); ok && err == nil && m.name == "endpoint" {
		delete(body, first)
		of := fmt.Sprintf("PATCH /v1/endpoints/{id}/destinations/%s", url.PathEscape(textOf(member(req.State.Raw, first,
			tftypes.DynamicPseudoType), "id")))
		_, err = m.call(ctx, of, req.State.Raw, one)
	}
	if err == nil {
		m.split(body)
		var answer object
		if answer, err = m.call(ctx, m.update, req.State.Raw, body); err == nil {
			err = m.store(&resp.State, answer, req.Plan.Raw, true)
		}
	}
	if err != nil {
		report(&resp.Diagnostics, "The "+m.name+" was not changed", err)
	}
}

func (m *managed) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	operation, body := m.remove, any(nil)
	if m.reset != nil {
		operation, body = m.update, m.reset
	}
	if _, err := m.call(ctx, operation, req.State.Raw, body); failed(err) {
		report(&resp.Diagnostics, "The "+m.name+" was not deleted", err)
	}
}

// ImportState takes the names of the path and the id, separated by slashes.
func (m *managed) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	names := slices.Clone(m.kind.path)
	if m.id != "" || len(names) == 0 {
		names = append(names, "id")
	}
	values := strings.SplitN(req.ID, "/", len(names))
	if len(values) != len(names) {
		resp.Diagnostics.AddError("The identifier is incomplete", "It has the form "+strings.Join(names, "/")+".")
		return
	}
	for i, name := range names {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), types.StringValue(values[i]))...)
	}
}

var _ resource.ResourceWithImportState = &managed{}
