package kinds

import (
	"cmp"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/web"
)

// Inbound is how an endpoint gets events beside its ingest URL. Its secrets are sealed as source.kafka.password and
// reconcile.credential.
type Inbound struct {
	Source    *Source    `json:"source,omitempty"`
	Reconcile *Reconcile `json:"reconcile,omitempty"`
}

// Source is where an endpoint reads events from.
type Source struct {
	Kafka *KafkaSource `json:"kafka,omitempty" in:"null" description:"A topic in your Kafka. Merged member by member." label:"Kafka topic"`
}

// KafkaSource has the settings of a topic whose records are events.
type KafkaSource struct {
	Brokers  []string    `json:"brokers" in:"" minItems:"1" maxItems:"16" items.maxLength:"261" label:"Brokers" description:"Addresses of brokers as host:port; the others are found by them. Required." example:"[\"kafka-1.example.com:9093\"]"`
	Topic    string      `json:"topic" in:"" minLength:"1" maxLength:"249" label:"Topic" description:"The topic, which must exist. Required." example:"orders"`
	Group    string      `json:"group" in:"" maxLength:"249" label:"Group" description:"The consumer group in which the relay commits how far it has read. No other program may use it. Default eventrelay- and the id of the endpoint." example:"eventrelay-orders"`
	Start    string      `json:"start" in:"" enum:"earliest,latest" label:"Begin with" description:"Where to begin if the group has no position: with the oldest record, or with those that come. Default latest."`
	SASL     string      `json:"sasl,omitempty" in:"null" enum:"plain,scram-sha-256,scram-sha-512" label:"SASL" description:"Mechanism of user name and password. Default none."`
	Username string      `json:"username,omitempty" in:"null" maxLength:"255" label:"User name" description:"For sasl. It needs the rights to read the topic and the group." example:"relay"`
	Password seal.Secret `json:"password,omitempty" in:"null" maxLength:"1024" label:"Password" description:"For sasl. Masked in responses; its mask means unchanged." example:"****4f2a"`
	// Plaintext needs the same permission as http.
	Plaintext bool   `json:"plaintext" in:"" label:"Without TLS" description:"Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false."`
	CA        string `json:"ca,omitempty" in:"null" maxLength:"16384" label:"Root certificates" description:"Root certificates of the brokers in PEM form, beside those that the relay trusts." example:"-----BEGIN CERTIFICATE-----…"`
}

// Broker returns the settings of the connection and the topic.
func (k *KafkaSource) Broker() Kafka {
	return Kafka{Brokers: k.Brokers, Topic: k.Topic, SASL: k.SASL, Username: k.Username, Password: k.Password,
		Plaintext: k.Plaintext, CA: k.CA, Key: Keys[0]}
}

// Trim gives members their defaults.
func (b *Inbound) Trim(endpoint, provider string, now time.Time) {
	if b.Source != nil && b.Source.Kafka != nil {
		k := b.Source.Kafka
		k.Group, k.Start = cmp.Or(k.Group, "eventrelay-"+endpoint), cmp.Or(k.Start, "latest")
		if k.SASL == "" {
			k.Username, k.Password = "", ""
		}
	}
	if b.Reconcile != nil {
		b.Reconcile.trim(provider, now)
	}
}

// Origins are where the secrets are sent, by the first part of their paths.
func (b Inbound) Origins() map[string]string {
	origins := map[string]string{}
	if b.Source != nil && b.Source.Kafka != nil {
		broker := b.Source.Kafka.Broker()
		origins["source"] = broker.origin()
	}
	if b.Reconcile != nil {
		origins["reconcile"] = b.Reconcile.APIURL + " " + b.Reconcile.Hook
	}
	return origins
}

// ValidateFor validates all members for an endpoint of a provider, as [Settings.Validate] does.
func (b Inbound) ValidateFor(provider string, c Checks) error {
	if !c.Opened {
		b = b.Masked(func(string) string { return "sealed" })
	}
	if b.Source != nil {
		if err := b.Source.validate(c); err != nil {
			return err
		}
	}
	if b.Reconcile != nil {
		return b.Reconcile.validate(provider, c)
	}
	return nil
}

func (s *Source) validate(c Checks) error {
	if s.Kafka == nil {
		return &Fault{"source.kafka", "is required; null in place of source ends it"}
	}
	broker := s.Kafka.Broker()
	fault := broker.validate(c)
	if fault == nil && !isTopicName(s.Kafka.Group) {
		fault = &Fault{"group", "must have letters, digits, dots, hyphens and underscores only"}
	}
	if fault != nil {
		return &Fault{"source.kafka." + fault.Path, fault.Message}
	}
	return require.Bounds("source.kafka", s.Kafka)
}

// Secrets returns the secrets that are set, by their paths, such as source.kafka.password.
func (b Inbound) Secrets() map[string]*seal.Secret {
	found := map[string]*seal.Secret{}
	eachSecret(reflect.ValueOf(&b).Elem(), "", func(path string, x *seal.Secret) { found[path] = x })
	return found
}

// Clone returns a copy whose structs are its own.
func (b Inbound) Clone() Inbound {
	cloneStructs(reflect.ValueOf(&b).Elem())
	return b
}

// Open returns a copy with opened secrets. id is that of the endpoint.
func (b Inbound) Open(k *seal.Keyring, id string) (Inbound, error) {
	next := b.Clone()
	return next, open(k, id, next.Secrets())
}

// Seal is [Settings.Seal] for an endpoint.
func (b Inbound) Seal(k *seal.Keyring, id string, sealed, before Inbound) Inbound {
	next := b.Clone()
	sealAll(k, id, next.Secrets(), sealed.Secrets(), before.Secrets())
	return next
}

// Masked returns a copy of an opened Inbound with masked secrets.
func (b Inbound) Masked(mask func(string) string) Inbound {
	next := b.Clone()
	maskAll(next.Secrets(), mask)
	return next
}

// open opens the secrets of an entity.
func open(k *seal.Keyring, id string, secrets map[string]*seal.Secret) (err error) {
	for path, secret := range secrets {
		text, openErr := k.OpenString(id, path, *secret)
		*secret, err = seal.Secret(text), errors.Join(err, openErr)
	}
	return err
}

// sealAll seals opened secrets. Those that old has, too, stay as they were sealed.
func sealAll(k *seal.Keyring, id string, next, was, old map[string]*seal.Secret) {
	for path, secret := range next {
		if old[path] != nil && *old[path] == *secret {
			*secret = *was[path]
		} else {
			*secret = k.SealString(id, path, string(*secret))
		}
	}
}

func maskAll(secrets map[string]*seal.Secret, mask func(string) string) {
	for _, secret := range secrets {
		*secret = seal.Secret(mask(string(*secret)))
	}
}

// Reconcile says how events that the provider could not deliver are fetched from its API.
type Reconcile struct {
	Credential   seal.Secret `json:"credential" in:"" minLength:"1" maxLength:"1024" label:"Credential" description:"Of the provider's API: a restricted key of Stripe with Events: Read, or a token of GitHub with Webhooks: Read and write. Masked in responses; its mask means unchanged. Required." example:"****4f2a"`
	Hook         string      `json:"hook,omitempty" in:"null" maxLength:"300" label:"Webhook at GitHub" description:"For github: the webhook as its API names it, repos/OWNER/REPO/hooks/ID or orgs/ORG/hooks/ID. Required there." example:"repos/example/shop/hooks/42"`
	Types        []string    `json:"types" in:"" maxItems:"20" items.minLength:"1" items.maxLength:"200" label:"Event types" description:"Only events of these types, as the provider names them. Default: all." example:"[\"invoice.paid\"]"`
	EverySeconds int         `json:"every_seconds" in:"" minimum:"10" maximum:"86400" label:"Every" description:"Seconds between two looks. Default 300."`
	Since        web.Time    `json:"since" in:"null" inref:"InputTime" label:"Since" description:"Events before this time are not fetched. Default: when reconcile was set. Events that arrived before that and failed at another webhook of the account may come again." example:"\"2026-06-01T00:00:00.000Z\""`
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
