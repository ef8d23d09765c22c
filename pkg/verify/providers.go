package verify

import "strings"

// Names of the providers. All but Generic are verification types too.
const (
	Generic          = "generic" // for endpoints without a known provider; it has no signature
	Stripe           = "stripe"
	GitHub           = "github"
	Shopify          = "shopify"
	Slack            = "slack"
	Twilio           = "twilio"
	StandardWebhooks = "standard_webhooks" // for providers that follow the Standard Webhooks specification
	HMAC             = "hmac"              // the configurable scheme, for providers that have no scheme of their own here
)

// schemes are all providers, in the order of the documents. Validation, the API's enums, defaults and samples use this
// list; tests compare it with the OpenAPI document and the table in docs/start/providers.md.
var schemes = []*Scheme{&generic, &stripe, &github, &shopify, &slack, &twilio, &standardWebhooks, &custom}

var generic = Scheme{Name: Generic, Title: "a generic provider", Sample: plainSample}

// Stripe sends `Stripe-Signature: t=1760000000,v1=<hex>[,v1=<hex>…][,v0=…]`, HMAC-SHA256 of `t.body`, keyed with the
// whole secret, `whsec_` included. There are several v1 while a secret is rotated. v0 is a test scheme that Stripe says
// to ignore; items with other names are ignored too.
var stripe = Scheme{
	Name: Stripe, Title: "Stripe", TypeSource: "body:$.type",
	layout: layout{header: "Stripe-Signature", separators: ",", prefix: "v1=", form: hexSHA256(),
		content: mustTemplate("{timestamp}.{body}")},
	secretsOfOtherUse: map[string]string{"sk_": "a secret API key", "rk_": "a restricted API key",
		"pk_": "a publishable API key"},
	Sample: Sample{
		Type: "payment_intent.succeeded", UserAgent: "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
		ContentType: jsonType + "; charset=utf-8",
		Body: `{"id":"evt_{id}","object":"event","api_version":"2026-06-30","created":{unix},"type":"{type}",` +
			`"livemode":false,"pending_webhooks":1,"request":{"id":null,"idempotency_key":null},"data":{"object":{` +
			`"id":"pi_{id}","object":"payment_intent","amount":4200,"currency":"eur","status":"succeeded",` +
			`"metadata":{"sample":"true"}}}}`,
	},
}

// GitHub sends `X-Hub-Signature-256: sha256=<hex>`, HMAC-SHA256 of the body. It still sends the older `X-Hub-Signature`
// (SHA-1) too; without the SHA-256 header, the signature is missing.
var github = Scheme{
	Name: GitHub, Title: "GitHub", TypeSource: "header:X-GitHub-Event",
	layout:            layout{header: "X-Hub-Signature-256", prefix: "sha256=", form: hexSHA256()},
	secretsOfOtherUse: map[string]string{"ghp_": "a personal access token", "github_pat_": "a personal access token"},
	Sample: Sample{
		Type: "push", UserAgent: "GitHub-Hookshot/sample", ContentType: jsonType,
		Header: map[string]string{"X-GitHub-Event": "{type}", "X-GitHub-Delivery": "{id}", "X-GitHub-Hook-ID": "1",
			"X-GitHub-Hook-Installation-Target-Type": "repository"},
		Body: `{"ref":"refs/heads/main","before":"0000000000000000000000000000000000000001",` +
			`"after":"0000000000000000000000000000000000000002","created":false,"deleted":false,"forced":false,` +
			`"repository":{"id":1,"name":"sample","full_name":"octo-sample/sample","private":true,` +
			`"default_branch":"main"},"pusher":{"name":"octo-sample"},` +
			`"sender":{"login":"octo-sample","id":1,"type":"User"},` +
			`"head_commit":{"id":"0000000000000000000000000000000000000002","message":"A sample commit",` +
			`"timestamp":"{iso}","added":[],"removed":[],"modified":["README.md"]}}`,
	},
}

// Shopify sends `X-Shopify-Hmac-Sha256: <base64>`, HMAC-SHA256 of the body, keyed with the app's client secret.
var shopify = Scheme{
	Name: Shopify, Title: "Shopify", TypeSource: "header:X-Shopify-Topic",
	layout:            layout{header: "X-Shopify-Hmac-Sha256", form: base64SHA256()},
	secretsOfOtherUse: map[string]string{"shpat_": "an access token", "shpca_": "an access token"},
	Sample: Sample{
		Type: "orders/create", UserAgent: "Shopify-Captain-Hook", ContentType: jsonType,
		Header: map[string]string{"X-Shopify-Topic": "{type}", "X-Shopify-Webhook-Id": "{id}",
			"X-Shopify-Event-Id": "{id}", "X-Shopify-Shop-Domain": "sample.myshopify.com",
			"X-Shopify-Api-Version": "2026-07", "X-Shopify-Triggered-At": "{iso}", "X-Shopify-Test": "true"},
		Body: `{"id":{millis},"admin_graphql_api_id":"gid://shopify/Order/{id}","name":"#1001","test":true,` +
			`"created_at":"{iso}","currency":"EUR","total_price":"42.00","financial_status":"paid","customer":null,` +
			`"line_items":[{"id":1,"sku":"SAMPLE-1","title":"Sample","quantity":1,"price":"42.00"}]}`,
	},
}

// Slack sends `X-Slack-Signature: v0=<hex>` and `X-Slack-Request-Timestamp`, HMAC-SHA256 of `v0:timestamp:body`, keyed
// with the app's signing secret.
var slack = Scheme{
	Name: Slack, Title: "Slack", TypeSource: "body:$.event.type|body:$.type",
	layout: layout{header: "X-Slack-Signature", prefix: "v0=", form: hexSHA256(),
		content: mustTemplate("v0:{timestamp:X-Slack-Request-Timestamp}:{body}")},
	secretsOfOtherUse: map[string]string{"xoxb-": "a bot token", "xoxp-": "a user token", "xapp-": "an app-level token"},
	Sample: Sample{
		Type: "app_mention", UserAgent: "Slackbot 1.0 (+https://api.slack.com/robots)", ContentType: jsonType,
		Body: `{"token":"sample","team_id":"T0SAMPLE","api_app_id":"A0SAMPLE","type":"event_callback",` +
			`"event_id":"Ev{ID}","event_time":{unix},"event":{"type":"{type}","user":"U0SAMPLE",` +
			`"text":"A sample message","ts":"{unix}.000100","channel":"C0SAMPLE","event_ts":"{unix}.000100"}}`,
	},
}

// Twilio sends `X-Twilio-Signature: <base64>`, an HMAC of the URL followed by the form parameters: HMAC-SHA1 with the
// account's auth token, or the algorithm in twilioSettings with the secret of a shared key. No time is signed, so the
// age cannot be checked. twilio.go has what is signed.
var twilio = Scheme{
	Name: Twilio, Title: "Twilio",
	layout: layout{header: "X-Twilio-Signature", optionalHeader: twilioSettings, form: base64SHA1(), signsURL: true},
	vary:   varyTwilio,
	secretsOfOtherUse: map[string]string{"SK": "the id of an API key", "AC": "the id of the account",
		"webhooks_sharedkey_": "the id of a shared key"},
	// Twilio parses responses as TwiML and reports an error if they are anything else.
	Answer: &Answer{ContentType: "text/xml", Body: "<Response/>"},
	Sample: Sample{
		UserAgent: "TwilioProxy/1.1", ContentType: "application/x-www-form-urlencoded; charset=UTF-8",
		Header: map[string]string{"I-Twilio-Idempotency-Token": "{id}", "X-Home-Region": "us1"},
		Body: "AccountSid=AC" + strings.Repeat("0", 32) + "&ApiVersion=2010-04-01&Body=A+sample+message" +
			"&From=%2B15005550006&MessageSid=SM{id}&NumMedia=0&SmsStatus=received&To=%2B15005550001",
	},
}

// Providers that follow Standard Webhooks 1.0.0 send `webhook-id`, `webhook-timestamp` and `webhook-signature:
// v1,<base64> [v1,<base64>…]`, HMAC-SHA256 of `id.timestamp.body`, keyed with the decoded secret. Other versions in the
// list, such as the asymmetric v1a, are ignored.
var standardWebhooks = Scheme{
	Name: StandardWebhooks, Title: "Standard Webhooks", TypeSource: "body:$.type",
	layout: layout{header: "Webhook-Signature", idHeader: "Webhook-Id", separators: " ", prefix: "v1,",
		form: base64SHA256(), content: mustTemplate("{timestamp:Webhook-Timestamp}.{body}"), base64Secrets: true},
	vary: varyStandard,
	Sample: Sample{
		Type: "invoice.paid", UserAgent: "standard-webhooks-sample/1", ContentType: jsonType,
		Body: `{"type":"{type}","timestamp":"{iso}","data":{"id":"inv_{id}","amount":4200,"currency":"eur","sample":true}}`,
	},
}

var custom = Scheme{
	Name: HMAC, Title: "the endpoint's HMAC", layout: layout{header: "X-Signature", configurable: true},
	vary: varyCustom, Sample: plainSample,
}

const jsonType = "application/json"

// plainSample is the sample of schemes that do not define the content of a request.
var plainSample = Sample{
	Type: "sample.created", UserAgent: "webhook-sample/1", ContentType: jsonType,
	Body: `{"id":"sample_{id}","type":"{type}","created_at":"{iso}","data":{"sample":true,"amount":4200}}`,
}
