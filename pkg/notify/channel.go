package notify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// Kind is a kind of channel: email, slack or webhook.
type Kind string

// kinds are all kinds of channels, in the order in which they are shown. To add one, write a file with its send
// function and add a line here: settings, their stored form, the API's members and the targets of notices are derived
// from it, and a test compares the OpenAPI document with it.
var kinds = []ChannelKind{
	{Kind: Email, Member: "to", Flat: "email", Mails: true, send: sendMail},
	{Kind: Slack, Member: "webhook_url", Flat: "slack_webhook_url", send: sendSlack},
	{Kind: Webhook, Member: "url", Flat: "webhook_url", Signed: true, send: sendWebhook},
}

// ChannelKind describes a kind of channel.
type ChannelKind struct {
	Kind   Kind
	Member string // API member that holds the address or URL
	Flat   string // API member beside "channels" that sets Member alone, such as slack_webhook_url
	Mails  bool   // Member holds mail addresses, otherwise a URL
	Signed bool   // messages are signed with a secret
	send   func(ctx context.Context, s *Sender, c Channel, m Message) Result
}

// Kinds returns all kinds of channels.
func Kinds() []ChannelKind { return kinds }

// KindNames returns the names of all kinds of channels.
func KindNames() []string {
	names := make([]string, len(kinds))
	for i := range kinds {
		names[i] = string(kinds[i].Kind)
	}
	return names
}

func kindOf(name Kind) *ChannelKind {
	for i := range kinds {
		if kinds[i].Kind == name {
			return &kinds[i]
		}
	}
	return nil
}

// SavedChannel is a channel of an account's settings.
type SavedChannel struct {
	Channel
	Enabled bool
}

// OpenChannels returns the configured channels with decrypted secrets, in the order of [Kinds].
func OpenChannels(k *seal.Keyring, s *alerting.AlertSettings) ([]SavedChannel, error) {
	var all []SavedChannel
	for _, kind := range kinds {
		name := string(kind.Kind)
		c := s.Channel(name)
		if c == nil {
			continue
		}
		open := SavedChannel{Channel{Kind: kind.Kind, To: c.To}, c.Enabled}
		var err error
		if !kind.Mails {
			if open.URL, err = k.OpenString(s.ID, alerting.FieldAlertURL(name), c.URL); err != nil {
				return nil, fmt.Errorf("decrypt the URL of the %s channel: %w", name, err)
			}
		}
		if kind.Signed {
			text, err := k.OpenString(s.ID, alerting.FieldAlertSecret(name), c.Secret)
			if err != nil {
				return nil, fmt.Errorf("decrypt the secret of the %s channel: %w", name, err)
			}
			if open.Secret, err = sign.ParseSecret(text); err != nil {
				return nil, fmt.Errorf("parse the secret of the %s channel: %w", name, err)
			}
		}
		all = append(all, open)
	}
	return all, nil
}

// Webhook posts a signed JSON body to any URL.
const Webhook Kind = "webhook"

func sendWebhook(ctx context.Context, s *Sender, c Channel, m Message) Result {
	return s.post(ctx, c, m, webhookBody(m))
}

// webhookBody returns the JSON body of a webhook.
func webhookBody(m Message) any {
	return struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Data      any    `json:"data"`
	}{m.ID, m.Type, m.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"), m.Data}
}

// AlertData is the member data of a webhook about an alert.
type AlertData struct {
	EndpointID    *string `json:"endpoint_id"`
	DestinationID *string `json:"destination_id"`
	Rule          string  `json:"rule"`
	Value         any     `json:"value"`
	Threshold     any     `json:"threshold"`
	// The following are set for findings only: the finding or tripwire, or the number of findings of a digest.
	FindingID  string `json:"finding_id,omitempty"`
	TripwireID string `json:"tripwire_id,omitempty"`
	Count      int    `json:"count,omitempty"`

	DashboardURL string `json:"dashboard_url"`
}

// maxAnswer bounds how much of an answer is read so that its connection can be reused.
const maxAnswer = 64 << 10

// post sends one HTTP request; the status decides the result. The request is signed as Standard Webhooks define if
// the channel has a secret.
func (s *Sender) post(ctx context.Context, c Channel, m Message, content any) Result {
	body, err := encode(content)
	if err != nil {
		return Result{Error: event.CodeInternal, Message: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return Result{Error: event.CodeInternal, Message: "the URL of the channel is not valid; save it again"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "EventRelay/"+s.version)
	if !c.Secret.IsZero() {
		now := s.deps.Now()
		req.Header.Set("webhook-id", m.ID)
		req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		req.Header.Set("webhook-signature", sign.Sign([]sign.Secret{c.Secret}, m.ID, now, body))
	}
	resp, err := s.deps.Transport.RoundTrip(req)
	if err != nil {
		return resultOfError(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // an error here does not change the result
	return resultOfStatus(resp.StatusCode)
}

// Slack posts to an incoming webhook of Slack.
const Slack Kind = "slack"

func sendSlack(ctx context.Context, s *Sender, c Channel, m Message) Result {
	return s.post(ctx, c, m, slackBody(m))
}

// Limits in characters. Slack rejects blocks whose texts are too long.
const (
	maxSlackHeader = 150  // Slack's limit for a header
	maxSlackText   = 2900 // a little below Slack's limit for a section, 3000
)

// slackBody returns the body for an incoming webhook: text is shown in notifications, blocks in the channel. The only
// link is the one to EventRelay: URLs in other texts are broken up, and Slack is told to create no links.
func slackBody(m Message) any {
	type text struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Verbatim bool   `json:"verbatim,omitempty"` // of mrkdwn: only written links become links
	}
	type block struct {
		Type   string `json:"type"`
		Text   *text  `json:"text,omitempty"`
		Fields []text `json:"fields,omitempty"`
	}
	markup := func(s string) text { return text{"mrkdwn", s, true} }
	title, sentences := slackPlain(web.SanitizeLine(m.Title), maxSlackHeader),
		markup(slackMarkup(web.SanitizeText(m.Text), maxSlackText))
	blocks := []block{
		{Type: "header", Text: &text{Type: "plain_text", Text: title}},
		{Type: "section", Text: &sentences},
	}
	var fields []text
	for _, f := range m.Facts {
		fields = append(fields, markup("*"+slackMarkup(web.SanitizeLine(f.Name), maxSlackHeader)+"*\n"+
			slackMarkup(web.SanitizeLine(f.Value), maxSlackHeader)))
	}
	if len(fields) > 0 {
		blocks = append(blocks, block{Type: "section", Fields: fields})
	}
	if m.Link != "" {
		link := markup("<" + slackEscape(m.Link) + "|Open in EventRelay>")
		blocks = append(blocks, block{Type: "section", Text: &link})
	}
	return struct {
		Text        string  `json:"text"`
		Blocks      []block `json:"blocks"`
		Parse       string  `json:"parse"`
		UnfurlLinks bool    `json:"unfurl_links"`
		UnfurlMedia bool    `json:"unfurl_media"`
	}{Text: slackEscape(title), Blocks: blocks, Parse: "none"}
}

// slackEscape escapes &, < and >, Slack's control characters: links and mentions begin with <. It leaves formatting
// such as *bold* as it is.
func slackEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// slackMarkup returns an escaped text without links. The limit holds for the escaped text, which Slack counts, and cuts
// no escape sequence in two.
func slackMarkup(s string, limit int) string {
	s = web.BreakLinks(s)
	escaped := slackEscape(s)
	for over := utf8.RuneCountInString(escaped) - limit; over > 0; over = utf8.RuneCountInString(escaped) - limit {
		// A character takes at most five escaped ones, so this many must go at least.
		s = truncate(s, utf8.RuneCountInString(s)-(over+4)/5)
		escaped = slackEscape(s)
	}
	return escaped
}

// slackPlain returns a text without links, truncated to the limit.
func slackPlain(s string, limit int) string { return truncate(web.BreakLinks(s), limit) }

func truncate(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}
