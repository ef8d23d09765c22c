// Package chart holds the Helm chart to what it is made from: the version, the alert rules and the settings of a node.
// The tests of test/helm render it.
package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var update = flag.Bool("update", false, "write the version, the rules and the settings into the chart")

// byChart are the settings that the chart makes of its own values, and why those of the embedded engines have no place.
var byChart = []string{
	"RELAY_LISTEN", "RELAY_BASE_URL", "RELAY_TRUSTED_PROXIES", "RELAY_TLS_CERT_FILE", "RELAY_TLS_KEY_FILE",
	"RELAY_NODE_NAME", "RELAY_ROLES", "RELAY_DATA_DIR", "RELAY_SHUTDOWN_DELAY_SECONDS", "RELAY_ADMIN_LISTEN",
	"RELAY_PPROF", "RELAY_KAFKA_BROKERS", "RELAY_KAFKA_TLS", "RELAY_KAFKA_CERT_FILE", "RELAY_KAFKA_KEY_FILE",
	"RELAY_REDIS_CA_FILE", "RELAY_REDIS_CERT_FILE", "RELAY_REDIS_KEY_FILE", "RELAY_EGRESS_ALLOW", "RELAY_EGRESS_DENY",
	"RELAY_EGRESS_CA_FILE",
	"RELAY_FSYNC", "RELAY_CHDB_LIB", // of embedded engines, which serve does not have
}

// read returns a file relative to this folder.
func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return string(text)
}

// compare fails unless the file has the text; with -update it writes it.
func compare(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(name, []byte(want), 0o644))
	}
	is.Equal(t, read(t, name), want, "%s is not what it is made from: run make generate", name)
}

func TestChartHasTheVersion(t *testing.T) {
	version := strings.TrimSpace(read(t, "../../VERSION"))
	line := regexp.MustCompile(`(?m)^(version|appVersion): .*$`)
	chart := read(t, "../../deploy/chart/eventrelay/Chart.yaml")
	must.Equal(t, len(line.FindAllString(chart, -1)), 2, "lines with a version: this test looks for the wrong text")
	compare(t, "../../deploy/chart/eventrelay/Chart.yaml", line.ReplaceAllString(chart, "$1: "+version))
}

func TestChartHasTheAlertRules(t *testing.T) {
	compare(t, "../../deploy/chart/eventrelay/files/alerts.yml", read(t, "../../deploy/prometheus/alerts.yml"))
}

// settings returns the schemas of the plain settings and of the secret ones, from the tags of nodeconfig.Config.
func settings(t *testing.T) (plain, secret map[string]any) {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "../../pkg/nodeconfig/nodeconfig.go", nil, 0))(t)
	plain, secret = map[string]any{}, map[string]any{}
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		text := must.Get(strconv.Unquote(field.Tag.Value))(t)
		tag := reflect.StructTag(text)
		name := "RELAY_" + strings.ToUpper(strings.ReplaceAll(tag.Get("flag"), "-", "_"))
		switch {
		case tag.Get("flag") == "" || slices.Contains(byChart, name):
		case tag.Get("secret") != "":
			secret[name] = map[string]any{"$ref": "#/definitions/optionalKey"}
		default:
			plain[name] = schema(t, field.Type)
		}
		return true
	})
	if len(plain) < 20 || len(secret) < 8 {
		t.Fatalf("%d settings and %d secrets: this test looks for the wrong text", len(plain), len(secret))
	}
	return plain, secret
}

// schema returns what a value of a setting may be.
func schema(t *testing.T, kind ast.Expr) any {
	t.Helper()
	if _, ok := kind.(*ast.ArrayType); ok {
		return map[string]any{"type": "array", "items": map[string]any{"type": "string", "pattern": "^[^,]+$"}}
	}
	name, ok := kind.(*ast.Ident)
	// A text such as 0.05 is a number in YAML.
	types := map[string]any{"string": []string{"string", "number"}, "int": "integer", "bool": "boolean"}
	if !ok || types[name.Name] == nil {
		t.Fatalf("a setting of type %v: say here which values it has in YAML", kind)
	}
	return map[string]any{"type": types[name.Name]}
}

// The chart takes every setting of the program and no other.
func TestChartHasTheSettings(t *testing.T) {
	text := read(t, "../../deploy/chart/eventrelay/values.schema.json")
	plain, secret := settings(t)
	for name, properties := range map[string]map[string]any{"settings": plain, "secrets": secret} {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("    ", "  ")
		definition := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
		must.Do(t, encoder.Encode(definition))
		// The last member of that name, with four spaces: that of definitions.
		start := strings.LastIndex(text, "\n    \""+name+"\": {") + len("\n    \""+name+"\": ")
		end := start + strings.Index(text[start:], "\n    }") + len("\n    }")
		text = text[:start] + strings.TrimSpace(b.String()) + text[end:]
	}
	compare(t, "../../deploy/chart/eventrelay/values.schema.json", text)
}
