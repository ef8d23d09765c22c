package dashboard

import "github.com/eventrelay/relay/pkg/verify"

// preset says what a person must do at a provider so that its webhooks arrive and are verified.
type preset struct {
	Provider string // as the API names it
	Name     string
	About    string // one line for the list of providers
	Menu     string // where the provider's settings are; empty: it differs
	// Steps are what to do at the provider, in order. The ingest URL is shown beside them.
	Steps []string
	// Secret says where the secret is found or entered, SecretForm what it looks like. Empty: there is none.
	Secret, SecretForm string
	Test               string // what the provider sends to try the URL, and what becomes of it
	// Mistake is what is usually wrong if a signature does not match.
	Mistake string
	Docs    string // the provider's own page about webhooks
}

// presets are in the order in which the page shows them: there is one for each provider of the API. Before each stand
// the titles of the provider's pages that it was compared with, in November 2026.
var presets = []preset{
	{ // “Manage event destinations”, “Receive Stripe events in your webhook endpoint”
		Provider: verify.Stripe, Name: "Stripe", About: "Payments, invoices and subscriptions. Signed with a timestamp.",
		Menu: "Workbench → Webhooks → Create new destination",
		Steps: []string{
			"Choose the API version, Events on your account, and the events that your application handles, such as " +
				"payment_intent.succeeded and invoice.paid. Select few: you can add more later. Continue.",
			"Choose Webhook, paste the ingest URL as Endpoint URL, and choose Create destination.",
			"Open the new destination, reveal its signing secret, and save it in the settings here.",
		},
		Secret:     "Workbench → Webhooks → your destination, at Signing secret.",
		SecretForm: "whsec_ and 32 or more letters and digits. Each destination has its own, also in a sandbox or test mode.",
		Test: "The Stripe CLI and Workbench can send a test event. stripe trigger uses the secret of the mode that it is " +
			"logged in to.",
		Mistake: "Usually the secret of another destination, or that of a sandbox for live events. stripe listen prints a " +
			"secret of its own, which this URL does not use.",
		Docs: "https://docs.stripe.com/workbench/event-destinations",
	},
	{ // “Creating webhooks”
		Provider: verify.GitHub, Name: "GitHub", About: "Pushes, pull requests and releases. Signed without a timestamp.",
		Menu: "Repository or organization → Settings → Webhooks → Add webhook",
		Steps: []string{
			"Paste the ingest URL as Payload URL.",
			"Set Content type to application/json.",
			"Enter the secret from here into Secret. GitHub does not make one: use a random text of 20 characters or more.",
			"Choose Just the push event, or Let me select individual events. Send me everything also sends events that nobody " +
				"handles. Leave Active selected and choose Add webhook.",
		},
		Secret:     "You choose it and enter the same text here and at GitHub under Secret.",
		SecretForm: "Any text. Use a random one of at least 20 characters, such as the output of openssl rand -hex 32.",
		Test: "GitHub sends the event ping as soon as the webhook is saved. It is stored and delivered like every other " +
			"event, with the type ping.",
		Mistake: "Usually the webhook at GitHub has no secret or another one. GitHub never shows a saved secret: enter it " +
			"again in both places.",
		Docs: "https://docs.github.com/en/webhooks/using-webhooks/creating-webhooks",
	},
	{ // “Creating webhooks” in the help for merchants; “Verify webhook deliveries” for apps
		Provider: verify.Shopify, Name: "Shopify", About: "Orders and products of a shop. Signed without a timestamp.",
		Menu: "Shop admin → Settings → Notifications → Webhooks → Create webhook",
		Steps: []string{
			"Choose an Event, such as Order creation, and the format JSON.",
			"Paste the ingest URL as URL, and take the newest stable Webhook API version.",
			"Save. The list of webhooks then shows what they are signed with: save that text in the settings here.",
			"Create one webhook for each event that you need. All use the same URL and secret.",
		},
		Secret: "Below the list of webhooks: “Your webhooks will be signed with …”. For webhooks of an app it is the app's " +
			"API secret key (client secret).",
		SecretForm: "64 hexadecimal digits for a shop; the client secret of an app may begin with shpss_.",
		Test:       "The menu of a webhook in the list can send a test: an example of its event with the same signature.",
		Mistake: "Usually the secret of an app is used for webhooks of the shop's admin, or the other way round: they are " +
			"different secrets. After an app's client secret was rotated, the old one signs for up to an hour.",
		Docs: "https://help.shopify.com/en/manual/fulfillment/setup/notifications/webhooks",
	},
	{ // “The Events API”, “url_verification event”, “Verifying requests from Slack”
		Provider: verify.Slack, Name: "Slack", About: "Messages and other events of a workspace. Signed with a timestamp.",
		Menu: "api.slack.com/apps → your app → Event Subscriptions → Enable Events",
		Steps: []string{
			"Paste the ingest URL as Request URL. Slack sends a challenge at once, and the endpoint answers it without " +
				"checking its signature: the page says Verified, also with a wrong secret here.",
			"Under Subscribe to bot events choose Add Bot User Event for those that you need, such as message.channels or " +
				"app_mention.",
			"Save Changes, and install the app again if Slack asks for it: new events can need new scopes.",
		},
		Secret:     "Your app → Basic Information → App Credentials → Signing Secret → Show.",
		SecretForm: "32 hexadecimal digits. It is neither the Client Secret nor the Verification Token.",
		Test: "The challenge (url_verification) is not stored. Write a message that the app sees to get a first event: it " +
			"shows whether the secret is right.",
		Mistake: "Usually the Client Secret or the old Verification Token was saved in place of the Signing Secret.",
		Docs:    "https://docs.slack.dev/apis/events-api/",
	},
	// “Messaging Webhooks”, “Secure webhooks”, “57012: Signature invalid”, “Create API keys in the Twilio Console”
	{
		Provider: verify.Twilio, Name: "Twilio", About: "Messages and calls. Signed over the URL and the form.",
		Menu: "Console → Phone Numbers → Manage → Active numbers → your number → Configure",
		Steps: []string{
			"Under Messaging, at A message comes in, choose Webhook and paste the ingest URL; for calls under Voice, at A " +
				"call comes in. Leave the method at HTTP POST: a GET is refused.",
			"For states of sent messages set the ingest URL as StatusCallback, or in the Messaging Service under Integration.",
			"Save. The endpoint answers with an empty <Response/>, so Twilio does nothing further.",
		},
		Secret: "Console → Account Info → Auth Token, or Admin → Account management → API keys & tokens. A subaccount has " +
			"its own.",
		SecretForm: "32 hexadecimal digits: the primary Auth Token, not an API key. A secondary one signs after it was " +
			"promoted.",
		Test: "Twilio sends no test. Send a message to the number.",
		Mistake: "Twilio signs the URL: it must be configured exactly as it is shown here, and RELAY_BASE_URL must be the " +
			"address that Twilio calls. An API key's secret does not work, only the Auth Token.",
		Docs: "https://www.twilio.com/docs/usage/webhooks/sms-webhooks",
	},
	{ // “Standard Webhooks”, version 1.0.0 of the specification
		Provider: verify.StandardWebhooks, Name: "Standard Webhooks",
		About: "Every provider that follows the specification, such as those that send with Svix.",
		Steps: []string{
			"Add an endpoint in the provider's webhook settings and paste the ingest URL.",
			"Choose the event types that your application handles.",
			"Reveal the endpoint's signing secret and save it in the settings here.",
		},
		Secret:     "In the provider's webhook settings, on the page of the endpoint: Signing secret.",
		SecretForm: "whsec_ and the Base64 of 24 to 64 bytes.",
		Test:       "Many providers have Send example on the page of the endpoint.",
		Mistake: "Usually the secret of another endpoint, or only a part of it was copied. A key that begins with whpk_ or " +
			"whsk_ belongs to asymmetric signatures (v1a), which are not verified: choose symmetric ones (v1) there.",
		Docs: "https://www.standardwebhooks.com",
	},
	{
		Provider: verify.HMAC, Name: "Another signature (HMAC)",
		About: "A provider that signs the body with a shared secret, in a header of its own.",
		Steps: []string{
			"Look up in the provider's documentation which header holds the signature, and how it is computed.",
			"Paste the ingest URL into the provider's webhook settings and choose the events.",
			"Save the provider's secret in the settings here. Begin with the mode observe: it delivers events with a wrong " +
				"signature too and says what is wrong with them.",
		},
		Secret:     "In the provider's webhook settings, often called signing secret, shared secret or token.",
		SecretForm: "A text of at least 16 characters. It is used as it stands, without decoding.",
		Test:       "See the provider's documentation.",
		Mistake: "Usually the encoding (hex or Base64), a prefix such as sha256=, or the signed text differs, for example " +
			"because a timestamp is part of it.",
	},
	{
		Provider: verify.Generic, Name: "No signature",
		About: "Anything that can send an HTTP request. Anyone who knows the URL can send events.",
		Steps: []string{
			"Paste the ingest URL into the sender. It accepts POST, PUT, PATCH and DELETE with any body.",
			"Keep the URL secret: there is no signature that could prove who sent a request.",
		},
		Test: "Send something yourself, or use Send a test event below.",
	},
}

// presetOf returns the preset of a provider, nil if there is none.
func presetOf(provider string) *preset {
	for i := range presets {
		if presets[i].Provider == provider {
			return &presets[i]
		}
	}
	return nil
}

// Signs reports whether the provider signs its requests.
func (p *preset) Signs() bool { return verify.ByName(p.Provider).Signs() }

// Configurable reports whether header, algorithm and signed text of the signature are settings.
func (p *preset) Configurable() bool { return verify.ByName(p.Provider).Configurable() }
