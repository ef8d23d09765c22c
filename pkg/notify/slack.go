package notify

import (
	"context"
	"strings"
	"unicode"

	"github.com/eventrelay/relay/pkg/web"
)

// Slack is the kind that posts to an incoming webhook of Slack.
const Slack Kind = "slack"

func sendSlack(ctx context.Context, s *Sender, c Channel, m Message) Result {
	return s.post(ctx, c, m, slackBody(m))
}

// Slack refuses blocks whose texts are longer, in characters.
const (
	maxSlackHeader = 150
	maxSlackText   = 2900
)

// slackBody is a message for an incoming webhook: the text stands in notifications, the blocks in the channel. Its one
// link is ours: Slack is told to make none of what it finds in texts, and finds none.
func slackBody(m Message) any {
	type text struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Verbatim bool   `json:"verbatim,omitempty"` // of mrkdwn: nothing but what is written as a link becomes one
	}
	type block struct {
		Type   string `json:"type"`
		Text   *text  `json:"text,omitempty"`
		Fields []text `json:"fields,omitempty"`
	}
	markup := func(s string) text { return text{"mrkdwn", s, true} }
	title, sentences := slackPlain(web.Line(m.Title), maxSlackHeader), markup(slackEscape(slackPlain(web.Text(m.Text),
		maxSlackText)))
	blocks := []block{
		{Type: "header", Text: &text{Type: "plain_text", Text: title}},
		{Type: "section", Text: &sentences},
	}
	var fields []text
	for _, f := range m.Facts {
		fields = append(fields, markup("*"+slackEscape(f.Name)+"*\n"+slackEscape(slackPlain(web.Line(f.Value),
			maxSlackHeader))))
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

// slackEscape keeps a text from being read as markup: Slack takes these three as entities and no others.
func slackEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// slackPlain is a text of which Slack makes no link, cut to the limit.
func slackPlain(s string, limit int) string { return cut(breakLinks(s), limit) }

// breakLinks writes https://example.com as https[:]//example[.]com, as people write addresses that nobody should
// follow: clients make links of whatever looks like one. A dot counts between a letter or digit and a letter.
func breakLinks(s string) string {
	var b strings.Builder
	runes := []rune(strings.ReplaceAll(s, "://", "[:]//"))
	for i, r := range runes {
		if r == '.' && i > 0 && word(runes[i-1]) && i+1 < len(runes) && unicode.IsLetter(runes[i+1]) {
			b.WriteString("[.]")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func cut(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}
