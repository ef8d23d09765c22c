package verify

import (
	"fmt"
	"strings"
	"time"
)

// Slack is the name of the provider Slack and of its verification type.
const Slack = "slack"

var slack = Scheme{
	Name: Slack, Title: "Slack", TypeSource: "body:$.event.type|body:$.type", check: checkSlack, sign: signSlack,
	layout:            slackLayout,
	secretsOfOtherUse: map[string]string{"xoxb-": "a bot token", "xoxp-": "a user token", "xapp-": "an app-level token"},
	Sample: Sample{
		Type: "app_mention", UserAgent: "Slackbot 1.0 (+https://api.slack.com/robots)", ContentType: jsonType,
		Body: slackSample,
	},
}

const slackHeader, slackTimeHeader, slackPrefix = "X-Slack-Signature", "X-Slack-Request-Timestamp", "v0="

// checkSlack reads `X-Slack-Signature: v0=<hex>` and `X-Slack-Request-Timestamp`, HMAC-SHA256 of `v0:timestamp:body`,
// keyed with the app's signing secret.
func checkSlack(c Config, r Request) (time.Time, Reason) {
	value, reason := singleValue(r.Header, slackHeader)
	if reason != "" {
		return time.Time{}, reason
	}
	stamp, reason := singleValue(r.Header, slackTimeHeader)
	if reason != "" {
		return time.Time{}, reason
	}
	signedAt, parsed := parseUnixSeconds(stamp)
	signature, found := strings.CutPrefix(value, slackPrefix)
	if !parsed || !found || !hexSHA256().wellFormed(signature) {
		return time.Time{}, SignatureMalformed
	}
	return signedAt, hexSHA256().verify(c.Secrets, slackMessage(r, stamp), signature)
}

func slackMessage(r Request, stamp string) message {
	return message{head: "v0:" + stamp + ":", body: r.Body}
}

func slackLayout(Config, Request) layout {
	const stamp = "{timestamp}"
	return layout{
		header: slackHeader, prefix: slackPrefix, form: hexSHA256(),
		content: template{head: "v0:" + stamp + ":", placeholder: stamp, header: slackTimeHeader},
	}
}

func signSlack(c Config, r Request, stamp string) error {
	setHeader(r, slackTimeHeader, stamp)
	setHeader(r, slackHeader, slackPrefix+hexSHA256().sign(c, slackMessage(r, stamp)))
	return nil
}

func slackSample(x SampleValues) string {
	return fmt.Sprintf(`{"token":"sample","team_id":"T0SAMPLE","api_app_id":"A0SAMPLE","type":"event_callback",`+
		`"event_id":"Ev%s",`+
		`"event_time":%d,"event":{"type":%q,"user":"U0SAMPLE","text":"A sample `+
		`message","ts":"%d.000100","channel":"C0SAMPLE",`+
		`"event_ts":"%d.000100"}}`, strings.ToUpper(x.ID), x.unix(), x.Type, x.unix(), x.unix())
}
