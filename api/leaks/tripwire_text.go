package leaks

import (
	"fmt"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
)

// addSecrets adds the secrets of a tripwire, as they are planted. Each text names this service, so that somebody who
// finds a secret tries it here.
func addSecrets(v *wire.Tripwire, baseURL string, text config.TripwireText) {
	token, url := text.Token, baseURL+frame.IngestPath+text.Token
	if text.Key != "" {
		token = text.Key
	}
	v.Token = &token
	if text.Token != "" {
		v.URL = &url
	}
	switch v.Kind {
	case config.TripwireKey:
		v.Snippets = []wire.TripwireSnippet{
			{Name: "environment", Text: "RELAY_URL=" + baseURL + "\nRELAY_API_KEY=" + token},
			{Name: "shell", Text: fmt.Sprintf("curl -H 'Authorization: Bearer %s' %s/v1/events", token, baseURL)},
			{Name: "json", Text: fmt.Sprintf("{\n  \"relay\": {\n    \"url\": %q,\n    \"apiKey\": %q\n  }\n}", baseURL, token)},
		}
	case config.TripwireURL:
		v.Snippets = []wire.TripwireSnippet{
			{Name: "environment", Text: "WEBHOOK_URL=" + url},
			{Name: "shell", Text: fmt.Sprintf("curl -d '{\"type\":\"ping\"}' %s", url)},
			{Name: "javascript", Text: fmt.Sprintf("const webhookURL = %q;", url)},
		}
	case config.TripwireFile:
		v.File = &wire.TripwireFile{Path: *v.Path, Content: decoyContent(*v.Path, baseURL, text.Key, url)}
	}
}

// decoyContent returns a file as one finds it at its path.
func decoyContent(path, baseURL, key, url string) string {
	switch path {
	case "/.git/config":
		return fmt.Sprintf(`[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
[http %q]
	extraHeader = Authorization: Bearer %s
[remote "origin"]
	url = %s
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
`, baseURL+"/", key, url)
	case "/credentials.json":
		return fmt.Sprintf("{\n  \"environment\": \"production\",\n  \"api\": %q,\n  \"api_key\": %q,\n"+
			"  \"webhook_url\": %q\n}\n", baseURL+"/v1", key, url)
	}
	return fmt.Sprintf("APP_ENV=production\nAPP_DEBUG=false\nLOG_LEVEL=warn\n\nRELAY_URL=%s\nRELAY_API_KEY=%s\n"+
		"WEBHOOK_URL=%s\n", baseURL, key, url)
}
