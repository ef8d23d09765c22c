package kinds

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/web"
)

// Reconcile says how events that the provider could not deliver are fetched from its API.
type Reconcile struct {
	Credential   seal.Secret `json:"credential" in:"" minLength:"1" maxLength:"1024" label:"Credential" description:"Of the provider's API: a restricted key of Stripe with Events: Read, or a token of GitHub with Webhooks: Read and write. Masked in responses; its mask means unchanged. Required." example:"****4f2a"`
	Hook         string      `json:"hook,omitempty" in:"null" maxLength:"300" label:"Webhook at GitHub" description:"For github: the webhook as its API names it, repos/OWNER/REPO/hooks/ID or orgs/ORG/hooks/ID. Required there." example:"repos/example/shop/hooks/42"`
	Types        []string    `json:"types" in:"" maxItems:"20" items.minLength:"1" items.maxLength:"200" label:"Event types" description:"Only events of these types, as the provider names them. Default: all." example:"[\"invoice.paid\"]"`
	EverySeconds int         `json:"every_seconds" in:"" minimum:"10" maximum:"86400" label:"Every" description:"Seconds between two looks. Default 300."`
	Since        web.Time    `json:"since" in:"null" inref:"InputTime" label:"Since" description:"Events before this time are not fetched. Default: when reconcile was set. Events that arrived before that and failed at another webhook of the account may come again." example:"\"2026-06-01T00:00:00Z\""`
	APIURL       string      `json:"api_url" in:"" format:"uri" maxLength:"2048" label:"Address of the API" description:"For GitHub Enterprise Server: https://HOST/api/v3. Default: that of the provider." example:"https://github.example.com/api/v3"`
}

// ReconcileStatus is behind the id of an endpoint in the name of its status.
const ReconcileStatus = ".reconcile"

// providersWithAPI are the addresses of the APIs, and how long the providers keep what they could not deliver.
var providersWithAPI = map[string]struct {
	url  string
	keep time.Duration
}{
	"stripe": {"https://api.stripe.com", 30 * 24 * time.Hour},
	"github": {"https://api.github.com", 3 * 24 * time.Hour},
}

// Horizon is how long a provider keeps what it could not deliver; 0 = it cannot be asked.
func Horizon(provider string) time.Duration { return providersWithAPI[provider].keep }

var hookPath = regexp.MustCompile(`^(repos/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+|orgs/[A-Za-z0-9_.-]+)/hooks/[0-9]+$`)

func (r *Reconcile) trim(provider string, now time.Time) {
	r.EverySeconds = cmp.Or(r.EverySeconds, 300)
	if r.Types == nil {
		r.Types = []string{}
	}
	r.APIURL = cmp.Or(r.APIURL, providersWithAPI[provider].url)
	if time.Time(r.Since).IsZero() {
		r.Since = web.Time(now)
	}
}

func (r *Reconcile) validate(provider string, c Checks) error {
	switch {
	case Horizon(provider) == 0:
		return &Fault{"reconcile", "needs an endpoint of stripe or github: other providers cannot be asked"}
	case r.Credential == "":
		return &Fault{"reconcile.credential", "is required"}
	case provider == "github" && !hookPath.MatchString(r.Hook):
		return &Fault{"reconcile.hook", "must be repos/OWNER/REPO/hooks/ID or orgs/ORG/hooks/ID"}
	case provider != "github" && r.Hook != "":
		return &Fault{"reconcile.hook", "is only for github"}
	}
	if strings.ContainsAny(r.APIURL, "?#") {
		return &Fault{"reconcile.api_url", "must have no query and no fragment"}
	}
	if err := c.URL(r.APIURL); err != nil {
		return &Fault{"reconcile.api_url", err.Error()}
	}
	return require.Bounds("reconcile", r)
}
