package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// apiDocument is the part of the OpenAPI document that describes GET requests.
type apiDocument struct {
	Paths map[string]struct {
		Parameters []parameter
		Get        *struct {
			Parameters []parameter
			Responses  map[string]struct{ Content map[string]any }
		}
	}
	Components struct{ Parameters map[string]parameter }
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string
	In   string
}

// SQL in any parameter of any GET request is treated as text: it is rejected, or searched for and not found. Answers
// contain no error texts of the store, and nothing in the store changes.
func TestSQLInEveryParameter(t *testing.T) {
	t.Parallel()
	skipShort(t)
	p := startDevProcess(t, t.TempDir())
	endpoint, _, _ := p.endpoint(
		map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/hook", "enabled": false}}})
	p.sendMany(endpoint, 3)
	rows := func() int { return len(p.list("&endpoint_id="+endpoint, 100)) }
	eventually(t, arrival, func() string {
		if rows() != 3 {
			return "not all events are listed"
		}
		return ""
	})
	asked := 0
	for _, target := range injectedTargets(p.readAPIDocument(), []string{
		"' OR '1'='1", `\' OR 1=1 -- `, "'; DROP TABLE events; --", "x') UNION ALL SELECT * FROM system.tables --",
		"{db:Identifier}", "?", "$1",
	}) {
		asked++
		p.checkHarmless(target)
	}
	if asked < 200 {
		t.Errorf("only %d requests: the test does not understand the document", asked)
	}
	t.Logf("%d requests", asked)
	is.Equal(t, rows(), 3, "events of 3 are left")
}

func (p *process) readAPIDocument() (d apiDocument) {
	p.t.Helper()
	resp := must.Get(http.Get(p.url + "/openapi.json"))(p.t)
	defer resp.Body.Close()
	must.Do(p.t, json.NewDecoder(resp.Body).Decode(&d))
	return d
}

// injectedTargets returns the targets of all GET requests, each with one of the texts in one parameter.
func injectedTargets(d apiDocument, texts []string) (targets []string) {
	for path, item := range d.Paths {
		if item.Get == nil {
			continue
		}
		for _, ref := range slices.Concat(item.Parameters, item.Get.Parameters) {
			par := ref
			if name, ok := strings.CutPrefix(ref.Ref, "#/components/parameters/"); ok {
				par = d.Components.Parameters[name]
			}
			name := strings.TrimSuffix(par.Name, "[]")
			for _, text := range texts {
				switch par.In {
				case "path":
					targets = append(targets, fillPathParameters(strings.Replace(path, "{"+name+"}", url.PathEscape(text), 1)))
				case "query":
					names := []string{par.Name}
					if name == "body" || name == "header" {
						names = []string{name + "[" + text + "]", name + "[a]"}
					}
					for _, member := range names {
						targets = append(targets, fillPathParameters(path)+"?"+url.Values{member: {text}}.Encode())
					}
				}
			}
		}
	}
	return targets
}

// fillPathParameters replaces the remaining path parameters with plain values.
func fillPathParameters(path string) string {
	for {
		before, rest, found := strings.Cut(path, "{")
		if !found {
			return path
		}
		_, after, _ := strings.Cut(rest, "}")
		path = before + "evt_00000000000000000000000000" + after
	}
}

// checkHarmless requests a target and checks that the answer shows no error of the store and finds nothing.
func (p *process) checkHarmless(target string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, p.url+target, http.NoBody))(p.t)
	req.Header.Set("Authorization", "Bearer "+p.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Errorf("%s: %v", target, err)
		return
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return // the stream has started, so the text was accepted
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusInternalServerError || bytes.Contains(body, []byte("DB::")) ||
		bytes.Contains(body, []byte("ClickHouse")) {
		p.t.Errorf("%s: %d %.300s, %v", target, resp.StatusCode, body, err)
	}
	var page struct{ Data []any }
	if resp.StatusCode == http.StatusOK && json.Unmarshal(body, &page) == nil && len(page.Data) > 0 {
		p.t.Errorf("%s found %d rows", target, len(page.Data))
	}
}
