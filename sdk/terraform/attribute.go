package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/numberplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// attribute is a member of a request or of an answer.
type attribute struct {
	Name, Description string
	// Type is string, integer, number, boolean, strings, integers, map (of strings), object, or json: any JSON as text.
	Type               string
	Required, Nullable bool
	Enum               []string // of a string; none: any text
	Members            []attribute

	Computed  bool `json:"-"` // the service sets it, if nobody else does
	ReadOnly  bool `json:"-"` // nobody else does
	Sensitive bool `json:"-"`
	replace   bool
	member    string // its name in the API; empty: Name
}

// key is the name of the attribute in the API.
func (a attribute) key() string { return cmp.Or(a.member, a.Name) }

//go:embed attributes.json
var attributesJSON []byte

// bodies are the members of the requests that create resources.
var bodies = func() (all map[string][]attribute) {
	if err := json.Unmarshal(attributesJSON, &all); err != nil {
		panic(err)
	}
	return all
}()

// secrets are members that the API shows masked, or never.
var secrets = []string{"secret", "secrets", "password", "client_secret", "secret_access_key", "credential",
	"signing_secret", "verify_code", "webhook_url"}

// of completes an attribute at a place. What may be null, and is null by default, is set by the configuration alone:
// taking it out of the configuration sets null. For everything else the service has a default, which is shown.
func (a attribute) of(place string, defaulted []string) attribute {
	place += a.Name
	a.Computed = !a.Required && (!a.Nullable || strings.Contains(place, ".") || slices.Contains(defaulted, place))
	a.Sensitive = slices.Contains(secrets, a.Name) || a.Name == "key" && strings.HasPrefix(place, "auth.")
	if a.Sensitive { // the service makes only the one with which it signs, if none is given
		a.Computed = place == "signing.secret" || place == "channels.webhook.secret"
	}
	members := a.Members
	a.Members = nil
	for _, m := range members {
		a.Members = append(a.Members, m.of(place+".", defaulted))
	}
	return a
}

// schema returns the attribute for the framework.
func (a attribute) schema() schema.Attribute {
	optional := !a.Required && !a.ReadOnly
	switch a.Type {
	case "string", "json":
		modifiers := modifiersOf(a, stringplanmodifier.UseStateForUnknown, stringplanmodifier.RequiresReplace)
		x := schema.StringAttribute{Required: a.Required, Optional: optional, Computed: a.Computed, Sensitive: a.Sensitive,
			Description: a.Description, PlanModifiers: modifiers}
		if a.Type == "json" {
			x.CustomType = jsontypes.NormalizedType{}
		}
		if a.Enum != nil {
			x.Validators = []validator.String{stringvalidator.OneOf(a.Enum...)}
		}
		return x
	case "boolean":
		return schema.BoolAttribute{Required: a.Required, Optional: optional, Computed: a.Computed,
			Description:   a.Description,
			PlanModifiers: modifiersOf(a, boolplanmodifier.UseStateForUnknown, boolplanmodifier.RequiresReplace)}
	case "integer", "number":
		return schema.NumberAttribute{Required: a.Required, Optional: optional, Computed: a.Computed,
			Description:   a.Description,
			PlanModifiers: modifiersOf(a, numberplanmodifier.UseStateForUnknown, numberplanmodifier.RequiresReplace)}
	case "strings", "integers":
		element := attr.Type(types.StringType)
		if a.Type == "integers" {
			element = types.NumberType
		}
		return schema.ListAttribute{ElementType: element, Required: a.Required, Optional: optional, Computed: a.Computed,
			Sensitive: a.Sensitive, Description: a.Description,
			PlanModifiers: modifiersOf(a, listplanmodifier.UseStateForUnknown, listplanmodifier.RequiresReplace)}
	case "map":
		return schema.MapAttribute{ElementType: types.StringType, Required: a.Required, Optional: optional,
			Computed: a.Computed, Description: a.Description,
			Sensitive:     a.Name == "headers", // often with a credential
			PlanModifiers: modifiersOf(a, mapplanmodifier.UseStateForUnknown, mapplanmodifier.RequiresReplace)}
	case "object":
		return schema.SingleNestedAttribute{Attributes: schemas(a.Members), Required: a.Required, Optional: optional,
			Computed: a.Computed, Description: a.Description,
			PlanModifiers: modifiersOf(a, objectplanmodifier.UseStateForUnknown, objectplanmodifier.RequiresReplace)}
	}
	panic("attribute " + a.Name + " has the unknown type " + a.Type)
}

// modifiersOf keeps what the service has chosen, and replaces the resource if the attribute cannot be changed.
func modifiersOf[M any](a attribute, keep, replace func() M) (all []M) {
	if a.Computed {
		all = append(all, keep())
	}
	if a.replace {
		all = append(all, replace())
	}
	return all
}

func schemas(of []attribute) map[string]schema.Attribute {
	all := map[string]schema.Attribute{}
	for _, a := range of {
		all[a.Name] = a.schema()
	}
	return all
}
