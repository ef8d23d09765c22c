package notify

import "context"

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
	// EventID is set for a backlog only: the event that has waited longest, or the one that it waits for.
	EventID string `json:"event_id,omitempty"`
	// The following are set for findings only: the finding or tripwire, or the number of findings of a digest.
	FindingID  string `json:"finding_id,omitempty"`
	TripwireID string `json:"tripwire_id,omitempty"`
	Count      int    `json:"count,omitempty"`

	DashboardURL string `json:"dashboard_url"`
}
