package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
)

// ErrProvider means that there is no sample for a provider.
var ErrProvider = errors.New("unknown provider")

// sample is what a provider sends: small, and with nobody's data in it.
type sample struct {
	kind    string // the type, unless another is asked for
	agent   string
	content string
	header  func(x *sampling) map[string]string
	body    func(x *sampling) string
}

// sampling is what differs from one sample to the next.
type sampling struct {
	kind string
	id   string // 26 characters that occur once
	at   time.Time
}

// unix and iso are the time of the sample as providers write it.
func (x *sampling) unix() int64 { return x.at.Unix() }

func (x *sampling) iso() string { return x.at.UTC().Format(time.RFC3339) }

// sampleOf is the sample of a provider.
func sampleOf(provider string) (sample, bool) {
	json := "application/json"
	switch provider {
	case verify.Stripe:
		return sample{kind: "payment_intent.succeeded", agent: "Stripe/1.0 (+https://stripe.com/docs/webhooks)", content: json + "; charset=utf-8", body: stripeSample}, true
	case verify.GitHub:
		return sample{kind: "push", agent: "GitHub-Hookshot/sample", content: json, body: githubSample, header: func(x *sampling) map[string]string {
			return map[string]string{"X-GitHub-Event": x.kind, "X-GitHub-Delivery": x.id, "X-GitHub-Hook-ID": "1", "X-GitHub-Hook-Installation-Target-Type": "repository"}
		}}, true
	case verify.Shopify:
		return sample{kind: "orders/create", agent: "Shopify-Captain-Hook", content: json, body: shopifySample, header: func(x *sampling) map[string]string {
			return map[string]string{
				"X-Shopify-Topic": x.kind, "X-Shopify-Webhook-Id": x.id, "X-Shopify-Event-Id": x.id, "X-Shopify-Shop-Domain": "sample.myshopify.com",
				"X-Shopify-Api-Version": "2026-07", "X-Shopify-Triggered-At": x.iso(), "X-Shopify-Test": "true",
			}
		}}, true
	case verify.Slack:
		return sample{kind: "app_mention", agent: "Slackbot 1.0 (+https://api.slack.com/robots)", content: json, body: slackSample}, true
	case verify.Twilio:
		return sample{agent: "TwilioProxy/1.1", content: "application/x-www-form-urlencoded; charset=UTF-8", body: twilioSample, header: func(x *sampling) map[string]string {
			return map[string]string{"I-Twilio-Idempotency-Token": x.id, "X-Home-Region": "us1"}
		}}, true
	case verify.StandardWebhooks:
		return sample{kind: "invoice.paid", agent: "standard-webhooks-sample/1", content: json, body: standardSample}, true
	case verify.HMAC, generic:
		return sample{kind: "sample.created", agent: "webhook-sample/1", content: json, body: genericSample}, true
	}
	return sample{}, false
}

func stripeSample(x *sampling) string {
	return fmt.Sprintf(`{"id":"evt_%s","object":"event","api_version":"2026-06-30","created":%d,"type":%q,"livemode":false,"pending_webhooks":1,`+
		`"request":{"id":null,"idempotency_key":null},"data":{"object":{"id":"pi_%s","object":"payment_intent","amount":4200,"currency":"eur","status":"succeeded","metadata":{"sample":"true"}}}}`,
		x.id, x.unix(), x.kind, x.id)
}

func githubSample(x *sampling) string {
	return fmt.Sprintf(`{"ref":"refs/heads/main","before":"%040d","after":"%040d","created":false,"deleted":false,"forced":false,`+
		`"repository":{"id":1,"name":"sample","full_name":"octo-sample/sample","private":true,"default_branch":"main"},`+
		`"pusher":{"name":"octo-sample"},"sender":{"login":"octo-sample","id":1,"type":"User"},`+
		`"head_commit":{"id":"%040d","message":"A sample commit","timestamp":%q,"added":[],"removed":[],"modified":["README.md"]}}`,
		1, 2, 2, x.iso())
}

func shopifySample(x *sampling) string {
	return fmt.Sprintf(`{"id":%d,"admin_graphql_api_id":"gid://shopify/Order/%s","name":"#1001","test":true,"created_at":%q,"currency":"EUR","total_price":"42.00","financial_status":"paid",`+
		`"customer":null,"line_items":[{"id":1,"sku":"SAMPLE-1","title":"Sample","quantity":1,"price":"42.00"}]}`, x.at.UnixMilli(), x.id, x.iso())
}

func slackSample(x *sampling) string {
	return fmt.Sprintf(`{"token":"sample","team_id":"T0SAMPLE","api_app_id":"A0SAMPLE","type":"event_callback","event_id":"Ev%s","event_time":%d,`+
		`"event":{"type":%q,"user":"U0SAMPLE","text":"A sample message","ts":"%d.000100","channel":"C0SAMPLE","event_ts":"%d.000100"}}`,
		strings.ToUpper(x.id), x.unix(), x.kind, x.unix(), x.unix())
}

func twilioSample(x *sampling) string {
	return url.Values{
		"AccountSid": {"AC" + strings.Repeat("0", 32)}, "MessageSid": {"SM" + x.id}, "SmsStatus": {"received"}, "NumMedia": {"0"},
		"From": {"+15005550006"}, "To": {"+15005550001"}, "Body": {"A sample message"}, "ApiVersion": {"2010-04-01"},
	}.Encode()
}

func standardSample(x *sampling) string {
	return fmt.Sprintf(`{"type":%q,"timestamp":%q,"data":{"id":"inv_%s","amount":4200,"currency":"eur","sample":true}}`, x.kind, x.iso(), x.id)
}

func genericSample(x *sampling) string {
	return fmt.Sprintf(`{"id":"sample_%s","type":%q,"created_at":%q,"data":{"sample":true,"amount":4200}}`, x.id, x.kind, x.iso())
}

// Sample makes a test event as a provider would send it to the endpoint, of a kind, empty for the usual one. It is signed with
// the endpoint's secret if the endpoint verifies that provider, and unsigned else. It is not accepted yet.
func (g *Ingest) Sample(ep *config.Endpoint, provider, kind string, d id.ID) (*event.Event, error) {
	s, ok := sampleOf(provider)
	if !ok {
		return nil, fmt.Errorf("%w %q", ErrProvider, provider)
	}
	p, err := g.preparer.endpoint(ep)
	if err != nil {
		return nil, err
	}
	x := &sampling{kind: cmp.Or(kind, s.kind), id: d.String(), at: d.Time()}
	header := http.Header{"Content-Type": {s.content}, "User-Agent": {s.agent}, "Accept": {"*/*"}}
	if s.header != nil {
		for name, value := range s.header(x) {
			header.Set(name, value)
		}
	}
	e := &event.Event{
		ID: d, Account: ep.Account, Endpoint: ep.ID, Source: event.SourceTest, Verdict: event.VerdictUnverified, Method: http.MethodPost,
		Dests: p.dests, Body: []byte(s.body(x)),
	}
	if len(e.Dests) == 0 {
		e.Reason = event.NoDestination
	}
	if p.verify != nil && p.verify.Type == provider {
		if err := g.signSample(ep, p, e, header); err != nil {
			return nil, err
		}
		e.Verdict = event.VerdictVerified
	}
	e.Type = cmp.Or(kind, p.types.Of(header, e.Body), s.kind)
	for name, values := range header {
		e.Header = append(e.Header, event.Field{Name: name, Value: values[0]})
	}
	slices.SortFunc(e.Header, func(a, b event.Field) int { return cmp.Compare(a.Name, b.Name) })
	return e, nil
}

// signSample adds the provider's signature to the headers of a sample.
func (g *Ingest) signSample(ep *config.Endpoint, p *prepared, e *event.Event, header http.Header) error {
	if p.verify.Type == verify.StandardWebhooks {
		header.Set("Webhook-Id", "msg_"+e.ID.String())
	}
	address, err := g.address(ep.ID, ep.Token, "")
	if err != nil {
		return err
	}
	return verify.Sign(*p.verify, verify.Request{Method: e.Method, URL: address, Header: header, Body: e.Body, Now: e.ReceivedAt()})
}
