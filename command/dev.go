package command

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/eventrelay/relay/node"
)

// devBanner is what dev prints when it is ready, with a link that signs the first user in. It shows the API key unless
// it was given: then it is a secret of somebody's environment.
func devBanner(ctx context.Context, n *node.Node, s *settings, keyGiven bool, log *slog.Logger) string {
	link, isSignIn, err := n.DashboardLink(ctx)
	if err != nil { // everything else works without the dashboard
		log.LogAttrs(ctx, slog.LevelWarn, "nobody can sign in to the dashboard yet; relay users add prints a link",
			slog.Any("error", err))
	}
	key, line := keyLine(s.BootstrapKey, keyGiven, n.AcceptsBootstrapKey())
	return banner(n.URL(), key, line, dashboardLine(link, isSignIn))
}

// dashboardLine is the part of the banner that says where the dashboard is; empty without a link.
func dashboardLine(link string, isSignIn bool) string {
	switch {
	case link == "":
		return ""
	case isSignIn:
		return fmt.Sprintf("Dashboard, as %s, once within 10 minutes: %s\n", node.FirstUser, link)
	}
	return fmt.Sprintf("Dashboard: %s\n", link)
}

// keyLine returns the API key as the commands of the banner have it, and the line about it.
func keyLine(key string, given, accepted bool) (shown, line string) {
	switch {
	case !accepted:
		return "rly_live_…",
			"The first API key was revoked. relay keys create --name NAME --scope read_write creates another one."
	case given:
		return "$RELAY_BOOTSTRAP_KEY",
			"API key (read and write): RELAY_BOOTSTRAP_KEY. The commands below read this variable."
	}
	return key, "API key (read and write): " + key
}

// banner is what dev prints when it is ready. Its commands work when they are pasted as a whole.
func banner(url, key, keyLine, dashboard string) string {
	return fmt.Sprintf(`
EventRelay is ready at %[1]s

%[4]s
%[3]s
Try it: create an endpoint that only captures, post an event to it, and read the event.

  AUTH="Authorization: Bearer %[2]s" JSON='Content-Type: application/json'
  EP=$(curl -sS %[1]s/v1/endpoints -H "$AUTH" -H "$JSON" \
    -d '{"name":"first","destinations":[{"url":"https://example.com/hook","enabled":false}]}')
  IN=$(printf '%%s' "$EP" | sed -n 's/.*"ingest_url":"\([^"]*\)".*/\1/p')
  curl -sS "$IN" -H "$JSON" -d '{"type":"order.paid","amount":4200}'; echo
  EVT=$(curl -sS "%[1]s/v1/events?limit=1" -H "$AUTH" | sed -n 's/.*"id":"\(evt_[0-9a-z]*\)".*/\1/p')
  curl -sS "%[1]s/v1/events/$EVT" -H "$AUTH"; echo

Ctrl-C stops it. The data stays.
`, url, key, dashboard, keyLine)
}
