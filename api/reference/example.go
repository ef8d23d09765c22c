package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// samples are values of fields whose schema has no example, by the name of the field.
var samples = map[string]string{
	"action": "endpoint.updated", "advice": "Add the DNS record, then verify again.", "after": "Jane", "before": "jane",
	"body": `{"order_id":"1042"}`, "charset": "alphanumeric", "code": "signature_mismatch", "content": "API_KEY=rk_9f2c",
	"content_type": "application/json", "created_by": "key_7n5r", "currency": "EUR", "description": "Orders of the shop",
	"dns_record": "_relay.example.com", "endpoint_name": "Shop", "destination_name": "Billing",
	"environment": "production", "error": "the mail server refused the message", "event_type": "order.created",
	"file": "src/orders.js", "function": "createOrder", "header": "X-Signature", "hostname": "www.example.com",
	"host": "hooks.example.com", "key": "email", "key_name": "deploy", "label": "backup of 2026",
	"last_error_code": "connection_refused", "masked": "sk_live_****4f8h", "message": "the signature does not match",
	"method": "POST", "name": "Orders", "node": "relay-1", "note": "rotated", "path": "/orders", "placement": ".env file",
	"pointer": "/order/id", "prefix": "v1=", "query": "source=shop", "reference": "order-1042",
	"release": "2026.11.1", "remote_ip": "203.0.113.7", "remote_network": "203.0.113.0/24", "rule": "stripe-key",
	"sdk": "node/1.4.0", "secret": "whsec_bW9yZSB0aGFuIDI0IGJ5dGVzIGxvbmc=", "seen": "relay-proof", "text": "curl -i",
	"token": "9f2c7d41e8", "token_masked": "****41e8", "top_error": "connection refused", "type": "order.created",
	"user_agent": "curl/8.5.0", "version": "1.4.0", "type_source": "body:$.type", "signed_content": "timestamp.body",
	"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "request_id": "req_2gk4m0v6x8ctq1zj5n7rbw3ye9", "param": "url",
	"account_id": "acc_5n7rbw3ye9d6c8m2v0x4ktq1zj", "idempotency_key": "order-1042", "timestamp": "1795348800",
	"data": "eyJvcmRlcl9pZCI6IjEwNDIifQ==", "why": "The destination answered 503.", "team": "billing", "last4": "4f8h",
	"secret_last4": "4f8h", "target": "ops@example.com", "duplicate_of": "evt_01m7w6h6kk00r00w2s1cbs4f8h",
	"output_text": "order 1042", "state_reason": "too many failures", "fingerprint": "9f2c7d41e8a05b36",
	"updated_by": "key_7n5r", "ignore_reason": "test key", "resolution": "rotated", "channel": "log",
	"order_id": "1042", "next_cursor": "b2xkZXIgdGhhbiAxMDQy", "to": "/customer/name", "at": "/order", "retry_on": "5xx",
	"dsn": "https://9f2c7d41e8@relay.example.com/dsn_5n7rbw3ye9", "dsn_id": "dsn_5n7rbw3ye9d6c8m2v0x4ktq1zj",
	"third_party": "cdn.example.net", "keep": "/order_id", "status": "active",
	"delivery_id": "dlv_9d6c8m2v0x4ktq1zj5n7rbw3ye",
	"value":       "EUR", "threshold": "5", "details": "id", "suite_id": "suite_5n7rbw3ye9d6c8m2",
	"headers_base64":  "WC1TaWduYXR1cmU=",
	"test_finding_id": "fnd_01m7w6h6kk00r00w2s1cbs4f8h",
	"related_id":      "ep_6c8m2v0x4ktq1zj5n7rbw3ye9d", "left": "key", "right": "end", "from": "/customer/name",
	"detected_platform": "heroku", "received_prefix": "5257a8", "expected_prefix": "91c0de", "id": "rule-1",
}

// formats are values of the formats.
var formats = map[string]string{
	"date": "2026-11-20", "date-time": "2026-11-20T08:00:00.000Z", "uri": "https://example.com/webhooks",
	"https-url": "https://example.com/webhooks", "email": "ops@example.com",
}

// appendExample writes a value of a schema as JSON: an example of the document if it has one, else one made from types,
// enums and formats. The name is that of the field that has the value; within are the objects around it.
func (d *spec) appendExample(b *bytes.Buffer, s *schema, name string, within ...*schema) error {
	if s = d.target(s); s == nil || slices.Contains(within, s) {
		return fmt.Errorf("no example can be made of %s: its schema is missing, or contains itself", name)
	}
	given := slices.Concat(s.Examples, []yaml.Node{s.Const}, s.Enum, s.Extensible, []yaml.Node{s.Default})
	if i := slices.IndexFunc(given, func(n yaml.Node) bool { return !n.IsZero() && n.Tag != "!!null" }); i >= 0 {
		return AppendJSON(b, &given[i])
	}
	if fields, _ := d.properties(s); d.isObject(s) {
		return d.appendObject(b, fields, append(within, s))
	}
	if alternatives := s.alternatives(); len(alternatives) > 0 {
		return d.appendExample(b, alternatives[0], name, within...)
	}
	kind := "object"
	if i := slices.IndexFunc(s.Types, func(t string) bool { return t != "null" }); i >= 0 {
		kind = s.Types[i]
	}
	switch kind {
	case "array":
		b.WriteByte('[')
		err := d.appendExample(b, s.Items, strings.TrimSuffix(name, "s"), within...)
		b.WriteByte(']')
		return err
	case "boolean":
		b.WriteString("true")
	case "integer", "number":
		b.WriteString(strconv.FormatFloat(s.number(name), 'f', -1, 64))
	case "string":
		return appendScalar(b, d.text(s, name))
	default:
		value := s.AdditionalProperties
		if value == nil || len(value.Types) == 0 {
			value = &schema{Types: typeNames{"string"}}
		}
		return d.appendObject(b, ordered[*schema]{{"order_id", value}}, within)
	}
	return nil
}

func (d *spec) appendObject(b *bytes.Buffer, fields ordered[*schema], within []*schema) error {
	b.WriteByte('{')
	fields = slices.DeleteFunc(fields, func(f entry[*schema]) bool {
		inner := d.target(f.Value)
		for inner != nil && inner.Items != nil {
			inner = d.target(inner.Items)
		}
		return f.Name == "warnings" || f.Value.Deprecated || slices.Contains(within, inner)
	})
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(f.Name) + ":")
		if err := d.appendExample(b, f.Value, f.Name, within...); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// numbers are values of numbers, by the end of their name.
var numbers = []numberSample{{"status", 200}, {"_seconds", 30}, {"_ms", 120}, {"bytes", 1024}, {"", 3}}

type numberSample struct {
	end   string
	value float64
}

// number is a number within the bounds.
func (s *schema) number(name string) float64 {
	i := slices.IndexFunc(numbers, func(n numberSample) bool { return strings.HasSuffix(name, n.end) })
	n, least, most := numbers[i].value, math.Inf(-1), math.Inf(1)
	if s.Minimum != nil {
		least = *s.Minimum
	}
	if s.Maximum != nil {
		most = *s.Maximum
	}
	return min(max(n, least), most)
}

// text is a string for a field: run_id is an example of the schema RunId.
func (d *spec) text(s *schema, name string) string {
	if value := formats[s.Format]; value != "" {
		return value
	}
	var camel strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if word != "" {
			camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	switch id := d.schemas[camel.String()]; {
	case id != nil && len(id.Examples) > 0 && strings.HasSuffix(name, "_id"):
		return id.Examples[0].Value
	case samples[name] != "":
		return samples[name]
	case strings.HasSuffix(name, "url"):
		return formats["uri"]
	}
	return strings.ReplaceAll(name, "_", " ")
}

// body is the example of a body, indented: the first of the document, or one made from the schema.
func (d *spec) body(content ordered[media]) (string, error) {
	if len(content) == 0 {
		return "", nil
	}
	var b, indented bytes.Buffer
	m := content[0].Value
	if len(m.Examples) == 0 && !strings.HasSuffix(content[0].Name, "json") {
		return "", nil
	}
	var err error
	if len(m.Examples) > 0 {
		err = AppendJSON(&b, &m.Examples[0].Value.Value)
	} else {
		err = d.appendExample(&b, m.Schema, "")
	}
	if err != nil {
		return "", err
	}
	err = json.Indent(&indented, b.Bytes(), "", "  ")
	return indented.String(), err
}

// parameterExample is a value of a parameter as it stands in a URL or header.
func (d *spec) parameterExample(p *parameter) (string, error) {
	if !p.Example.IsZero() {
		return p.Example.Value, nil
	}
	var b bytes.Buffer
	if err := d.appendExample(&b, p.Schema, p.Name); err != nil {
		return "", err
	}
	var text string
	if json.Unmarshal(b.Bytes(), &text) == nil {
		return text, nil
	}
	return strings.Trim(b.String(), `[]"`), nil
}
