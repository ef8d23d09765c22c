package notify

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/web"
)

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
