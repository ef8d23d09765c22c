package notify

import (
	"context"
	"fmt"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/sign"
)

// Kind names how a channel sends.
type Kind string

// kinds are all kinds of channels, in the order in which they are shown. A new one is a file with its send function and
// a line here: settings, their stored form, the API's members and targets are taken from it, and a test holds the
// OpenAPI document to it.
var kinds = []ChannelKind{
	{Kind: Email, Member: "to", Flat: "email", Mails: true, send: sendMail},
	{Kind: Slack, Member: "webhook_url", Flat: "slack_webhook_url", send: sendSlack},
	{Kind: Webhook, Member: "url", Flat: "webhook_url", Signed: true, send: sendWebhook},
}

// ChannelKind is what is known of a kind.
type ChannelKind struct {
	Kind   Kind
	Member string // where it sends, as the API calls it
	Flat   string // the API's member beside channels that stands for Member
	Mails  bool   // Member holds mail addresses, else a URL
	Signed bool   // it has a secret
	send   func(ctx context.Context, s *Sender, c Channel, m Message) Result
}

// Kinds are all kinds.
func Kinds() []ChannelKind { return kinds }

// KindNames are their names.
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

// Saved is a channel of an account's settings.
type SavedChannel struct {
	Channel
	Enabled bool
}

// Open returns the channels that are saved, their secrets in clear, in the order of [Kinds].
func OpenChannels(k *config.Keyring, s *config.AlertSettings) ([]SavedChannel, error) {
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
			if open.URL, err = k.OpenString(s.ID, config.FieldAlertURL(name), c.URL); err != nil {
				return nil, fmt.Errorf("open the %s channel: %w", name, err)
			}
		}
		if kind.Signed {
			text, err := k.OpenString(s.ID, config.FieldAlertSecret(name), c.Secret)
			if err != nil {
				return nil, fmt.Errorf("open the %s channel's secret: %w", name, err)
			}
			if open.Secret, err = sign.ParseSecret(text); err != nil {
				return nil, fmt.Errorf("read the %s channel's secret: %w", name, err)
			}
		}
		all = append(all, open)
	}
	return all, nil
}
