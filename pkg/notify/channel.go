package notify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
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
