package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/pkg/private"
)

// maxFile bounds a file, in bytes: relay apply reads up to 4 MiB. More endpoints go to a further file.
const maxFile = 3 << 20

// write writes the files for relay apply and their secrets. None of them may be there before.
func (p *plan) write(out string) (files []string, err error) {
	texts, err := p.files()
	if err != nil {
		return nil, err
	}
	if len(p.types) > 0 {
		catalogue, err := p.catalogue()
		if err != nil {
			return nil, err
		}
		files, texts = append(files, base(out)+".event-types.json"), append([][]byte{catalogue}, texts...)
	}
	for i := range len(texts) - len(files) {
		name := out
		if i > 0 {
			name = fmt.Sprintf("%s-%d%s", base(out), i+1, filepath.Ext(out))
		}
		files = append(files, name)
	}
	if err := absent(append(files, secretsOf(out))...); err != nil {
		return nil, err
	}
	if len(p.secrets) > 0 {
		if err := os.Mkdir(secretsOf(out), 0o700); err != nil {
			return nil, err
		}
	}
	save := func(name string, text []byte) error {
		return private.WriteFile(name, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	for _, s := range p.secrets {
		if err := save(filepath.Join(secretsOf(out), s.file), []byte(s.text)); err != nil {
			return nil, err
		}
	}
	for i, name := range files {
		if err := save(name, texts[i]); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// absent returns an error if one of the files is there.
func absent(names ...string) error {
	for _, name := range names {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w; remove it, or name another file with --out", name, cmp.Or(err, fs.ErrExist))
		}
	}
	return nil
}

func base(out string) string { return strings.TrimSuffix(out, filepath.Ext(out)) }

// secretsOf is the directory of the secrets of a file.
func secretsOf(out string) string { return base(out) + ".secrets" }

// files returns the endpoints as documents for relay apply. The first one begins with all that is listed.
func (p *plan) files() (texts [][]byte, err error) {
	var tenants, endpoints bytes.Buffer
	end := func() {
		var text bytes.Buffer
		fmt.Fprintf(&text, "# Endpoints of %s, for relay apply.\n", p.system)
		if texts == nil {
			comment(&text, "Listed, and not written:", p.listed)
			comment(&text, "To know:", p.general)
		}
		for _, part := range []struct {
			name string
			list *bytes.Buffer
		}{{"tenants", &tenants}, {"endpoints", &endpoints}} {
			if part.list.Len() > 0 {
				fmt.Fprintf(&text, "%s:\n%s", part.name, part.list)
			} else if part.list == &endpoints {
				text.WriteString("endpoints: []\n")
			}
			part.list.Reset()
		}
		texts = append(texts, text.Bytes())
	}
	for _, e := range p.endpoints {
		var raw, of []byte
		var err error
		if len(e.Destinations) > 0 {
			raw, err = item(e, e.comment)
		}
		if err == nil && e.of != nil {
			of, err = item(e.of, func(n *yaml.Node) {
				if raw == nil {
					n.HeadComment = notes(e.notes)
				}
			})
		}
		if err != nil {
			return nil, fmt.Errorf("write endpoint %s: %w", e.Name, err)
		}
		if endpoints.Len() > 0 && tenants.Len()+endpoints.Len()+len(raw)+len(of) > maxFile {
			end()
		}
		tenants.Write(of)
		endpoints.Write(raw)
	}
	end()
	return texts, nil
}

func comment(w io.Writer, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "# %s\n#   %s\n", title, strings.Join(lines, "\n#   "))
	}
}

// item returns an object as the only item of a list in YAML.
func item(of any, comment func(*yaml.Node)) ([]byte, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil { // YAML has all of JSON
		return nil, err
	}
	plain(&document)
	comment(document.Content[0])
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err = encoder.Encode(&yaml.Node{Kind: yaml.SequenceNode, Content: document.Content})
	return out.Bytes(), errors.Join(err, encoder.Close())
}

// comment adds the notes of an endpoint and its destinations.
func (e *endpoint) comment(node *yaml.Node) {
	node.HeadComment = notes(e.notes)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "destinations" {
			for j, item := range node.Content[i+1].Content {
				item.HeadComment = notes(e.Destinations[j].notes)
			}
		}
	}
}

func notes(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "# " + strings.Join(all, "\n# ")
}

// plain removes the brackets and quotes of JSON where YAML needs none.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, below := range n.Content {
		plain(below)
	}
}

// catalogue returns the event types as a document for POST /v1/event_types/import.
func (p *plan) catalogue() ([]byte, error) {
	webhooks := map[string]any{}
	for _, t := range p.types {
		operation := map[string]any{}
		if t.description != "" {
			operation["description"] = t.description
		}
		if t.group != "" {
			operation["tags"] = []string{t.group}
		}
		if t.deprecated {
			operation["deprecated"] = true
		}
		if len(t.schema) > 0 {
			operation["requestBody"] = map[string]any{"content": map[string]any{
				"application/json": map[string]any{"schema": t.schema}}}
		}
		webhooks[t.name] = map[string]any{"post": operation}
	}
	return json.MarshalIndent(map[string]any{"openapi": "3.1.0",
		"info": map[string]any{"title": "Event types of " + p.system, "version": "1"}, "webhooks": webhooks}, "", "  ")
}
