package notify

import (
	"fmt"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/sign"
)

// Saved is a channel of an account's settings.
type Saved struct {
	Channel
	Enabled bool
}

// Open returns the channels that are saved, their secrets in clear, in the order of config.AlertChannels.
func Open(k *config.Keyring, s *config.AlertSettings) ([]Saved, error) {
	var all []Saved
	if s.Email != nil {
		all = append(all, Saved{Channel{Kind: Email, To: s.Email.To}, s.Email.Enabled})
	}
	if s.Slack != nil {
		url, err := k.OpenString(s.ID, config.FieldAlertSlack, s.Slack.URL)
		if err != nil {
			return nil, fmt.Errorf("open the Slack channel: %w", err)
		}
		all = append(all, Saved{Channel{Kind: Slack, URL: url}, s.Slack.Enabled})
	}
	if s.Webhook != nil {
		url, err := k.OpenString(s.ID, config.FieldAlertWebhook, s.Webhook.URL)
		if err != nil {
			return nil, fmt.Errorf("open the webhook channel: %w", err)
		}
		text, err := k.OpenString(s.ID, config.FieldAlertSecret, s.Webhook.Secret)
		if err != nil {
			return nil, fmt.Errorf("open the webhook channel's secret: %w", err)
		}
		secret, err := sign.ParseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("read the webhook channel's secret: %w", err)
		}
		all = append(all, Saved{Channel{Kind: Webhook, URL: url, Secret: secret}, s.Webhook.Enabled})
	}
	return all, nil
}

// AlertData is the data of a webhook that announces an alert.
type AlertData struct {
	EndpointID    *string `json:"endpoint_id"`
	DestinationID *string `json:"destination_id"`
	Rule          string  `json:"rule"`
	Value         any     `json:"value"`
	Threshold     any     `json:"threshold"`
	DashboardURL  string  `json:"dashboard_url"`
}
