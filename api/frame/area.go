package frame

import (
	"context"
	"net/http"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/sdk"
)

// AddNeeds adds what of an area needs a person.
type AddNeeds = func(ctx context.Context, to *wire.OverviewNeeds, account string)

// ShowEndpoint adds what an area knows of an endpoint to the answer that shows it.
type ShowEndpoint = func(ctx context.Context, e *config.Endpoint, to *wire.Endpoint)

// PublicHandler answers a request without an API key.
type PublicHandler = func(w http.ResponseWriter, r *http.Request) error

// DrawPages draws public pages of the OpenAPI document, by path.
type DrawPages = func(document *yaml.Node) (map[string]*Page, error)

// Area is what a feature adds to the API.
type Area struct {
	Routes       []Route
	AddNeeds     AddNeeds     // nil: nothing
	ShowEndpoint ShowEndpoint // nil: nothing
	Document     wire.Part
	Public       map[string]PublicHandler // answer GET of paths outside of /v1 for everybody
	Pages        DrawPages                // nil: none
	Tools        []sdk.Tool               // programs to download
}

// Portal says where the portal is and which origins may lead to it.
type Portal struct {
	URL     string   // address of its pages, without a trailing slash
	Origins []string // of applications that may show it, such as https://app.example.com
}
