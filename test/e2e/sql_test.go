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
)

// described is what the API's document says of its reads.
type described struct {
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

// SQL in any parameter of any read is text like any other: it is refused, or looked for and not found. Nothing of the
// store's own words comes back, and nothing in it changes.
func TestSQLInEveryParameter(t *testing.T) {
	t.Parallel()
	long(t)
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
	for _, target := range injected(p.document(), []string{
		"' OR '1'='1", `\' OR 1=1 -- `, "'; DROP TABLE events; --", "x') UNION ALL SELECT * FROM system.tables --",
		"{db:Identifier}", "?", "$1",
	}) {
		asked++
		p.harmless(target)
	}
	if asked < 200 {
		t.Errorf("%d requests: the document was not understood", asked)
	}
	t.Logf("%d requests", asked)
	if n := rows(); n != 3 {
		t.Errorf("%d events of 3 are left", n)
	}
}

func (p *process) document() (d described) {
	p.t.Helper()
	resp, err := http.Get(p.url + "/openapi.json")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		p.t.Fatal(err)
	}
	return d
}

// injected are the targets of all reads, each with one parameter that is one of the texts.
func injected(d described, texts []string) (targets []string) {
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
					targets = append(targets, plain(strings.Replace(path, "{"+name+"}", url.PathEscape(text), 1)))
				case "query":
					names := []string{par.Name}
					if name == "body" || name == "header" {
						names = []string{name + "[" + text + "]", name + "[a]"}
					}
					for _, member := range names {
						targets = append(targets, plain(path)+"?"+url.Values{member: {text}}.Encode())
					}
				}
			}
		}
	}
	return targets
}

// plain fills what is left of a path's parameters.
func plain(path string) string {
	for {
		before, rest, found := strings.Cut(path, "{")
		if !found {
			return path
		}
		_, after, _ := strings.Cut(rest, "}")
		path = before + "evt_00000000000000000000000000" + after
	}
}

// harmless requests a target and checks the answer.
func (p *process) harmless(target string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+target, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Errorf("%s: %v", target, err)
		return
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return // it has begun, so that it took no offence
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
