package notify

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
)

// maxAnswer is how much of an answer is read, so that its connection can be used again.
const maxAnswer = 64 << 10

// post makes one request and judges its answer by the status. A webhook's is signed (Standard Webhooks).
func (s *Sender) post(ctx context.Context, c Channel, m Message, content any) Result {
	body, err := encode(content)
	if err != nil {
		return Result{Error: event.CodeInternal, Message: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return Result{Error: event.CodeInternal, Message: "the URL of the channel cannot be read"}
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
		return failed(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // the status has decided
	return answered(resp.StatusCode)
}

// Slack refuses blocks whose texts are longer, in characters.
const (
	maxSlackHeader = 150
	maxSlackText   = 2900
)

// slackBody is a message for an incoming webhook: the text stands in notifications, the blocks in the channel.
func slackBody(m Message) any {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type block struct {
		Type   string `json:"type"`
		Text   *text  `json:"text,omitempty"`
		Fields []text `json:"fields,omitempty"`
	}
	blocks := []block{
		{Type: "header", Text: &text{"plain_text", cut(m.Title, maxSlackHeader)}},
		{Type: "section", Text: &text{"mrkdwn", cut(slackEscape(m.Text), maxSlackText)}},
	}
	var fields []text
	for _, f := range m.Facts {
		fields = append(fields, text{"mrkdwn", "*" + slackEscape(f.Name) + "*\n" + cut(slackEscape(f.Value), maxSlackHeader)})
	}
	if len(fields) > 0 {
		blocks = append(blocks, block{Type: "section", Fields: fields})
	}
	if m.Link != "" {
		blocks = append(blocks, block{Type: "section", Text: &text{"mrkdwn", "<" + slackEscape(m.Link) + "|Open in EventRelay>"}})
	}
	return struct {
		Text   string  `json:"text"`
		Blocks []block `json:"blocks"`
	}{slackEscape(m.Title), blocks}
}

// slackEscape keeps a text from being read as markup: Slack takes these three as entities and no others.
func slackEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

func cut(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}
