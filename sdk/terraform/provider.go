package main

import (
	"cmp"
	"context"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	relay "github.com/eventrelay/relay/sdk/go"
)

// eventRelay is the provider: the address of a relay and a key.
type eventRelay struct{}

func newProvider() provider.Provider { return eventRelay{} }

func (eventRelay) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "eventrelay"
}

func (eventRelay) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Manages a relay of webhooks.",
		Attributes: map[string]schema.Attribute{
			"base_url": schema.StringAttribute{Optional: true,
				Description: "Address of the relay, such as https://relay.example.com. Default: RELAY_BASE_URL."},
			"api_key": schema.StringAttribute{Optional: true, Sensitive: true,
				Description: "API key with the scope read_write. Default: RELAY_API_KEY."},
		},
	}
}

func (eventRelay) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var settings struct {
		BaseURL types.String `tfsdk:"base_url"`
		APIKey  types.String `tfsdk:"api_key"`
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, &settings)...)
	url := cmp.Or(settings.BaseURL.ValueString(), os.Getenv("RELAY_BASE_URL"))
	key := cmp.Or(settings.APIKey.ValueString(), os.Getenv("RELAY_API_KEY"))
	switch {
	case resp.Diagnostics.HasError(), settings.BaseURL.IsUnknown(), settings.APIKey.IsUnknown():
		return
	case url == "":
		resp.Diagnostics.AddError("No address of a relay", "Set base_url of the provider, or RELAY_BASE_URL.")
	case key == "":
		resp.Diagnostics.AddError("No API key", "Set RELAY_API_KEY, or api_key of the provider.")
	}
	resp.ResourceData = relay.New(url, key)
}

func (eventRelay) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (eventRelay) Resources(context.Context) (all []func() resource.Resource) {
	for _, k := range kinds {
		all = append(all, func() resource.Resource { return &managed{kind: k} })
	}
	return all
}
