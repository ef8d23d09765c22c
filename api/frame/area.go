package frame

import (
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/secrets"
)

// AddNeeds adds what of an area needs a person.
type AddNeeds = func(to *wire.OverviewNeeds, account string)

// Area is what a feature adds to the API.
type Area struct {
	Routes   []Route
	AddNeeds AddNeeds // nil: nothing
	Document wire.Part
}

// AreaDeps is what the API gives the area of a feature.
type AreaDeps struct {
	Core     *Core
	Keyring  *seal.Keyring
	Erasures Erasures
	Limits   Limits
	Egress   egress.Policy
	Leaks    *secrets.Scanner // with the rules for leaks
	BaseURL  string
}
