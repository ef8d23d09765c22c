// Package otlp exports metrics and log lines to OpenTelemetry collectors, by OTLP over HTTP. Package spans exports
// traces, and shares the settings of a collector.
//
// [Metrics] reads the registry of Prometheus at an interval. [Logs] is a handler that passes each record on to the log
// of the process, and keeps a copy in a queue: nobody waits for a collector, and what finds the queue full is dropped
// and counted. Failures are logged once a minute, and those lines are not exported.
package otlp

import (
	"errors"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/web"
)

// Collector is an OpenTelemetry collector.
type Collector struct {
	URL     string // OTLP over HTTP; empty: none
	Headers string // of each request, as name=value,name=value; values may be percent-encoded
	// CAFile and DNSServer are those of egress.NewOperatorDialer.
	CAFile, DNSServer string
}

const (
	exportTimeout = 10 * time.Second // of a request with its repeats
	maxAnswer     = 4 << 20          // bytes of an answer, as the exporters themselves read
	complainEvery = time.Minute      // one log line about failures
	maxComplaint  = 500              // bytes of an error in it
	minSecret     = 8                // shorter values of headers are words, and "Bearer"
)

// Address returns the URL of the collector, with path unless it has one; nil if there is none.
func (c Collector) Address(path string) (*url.URL, error) {
	if c.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("must be http:// or https:// with a host: OTLP over HTTP, usually port 4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must have no user, query or fragment; credentials go into the setting of headers")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = path
	}
	return u, nil
}

// Header returns the headers of a request to the collector. Its errors do not repeat values, which are secrets.
func (c Collector) Header() (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(c.Headers, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = textproto.TrimString(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" || strings.ContainsFunc(name+value, isControl) ||
			strings.ContainsAny(name, " :") {
			return nil, errors.New("must be pairs name=value, separated by commas")
		}
		headers[name] = value
	}
	return headers, nil
}

// Complaint returns why an export failed, for the log. A collector's answer is part of it, which may be long and repeat
// the headers that it was sent.
func (c Collector) Complaint(err error) slog.Attr {
	text := err.Error()
	headers, _ := c.Header() // valid: it was used
	for _, value := range headers {
		for _, secret := range append([]string{value}, strings.Fields(value)...) {
			if len(secret) >= minSecret {
				text = strings.ReplaceAll(text, secret, "…")
			}
		}
	}
	text = web.SanitizeLine(text[:min(len(text), maxComplaint)])
	return slog.String("error", strings.ToValidUTF8(text, ""))
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Client returns the client for requests to the collector.
func (c Collector) Client() (*http.Client, error) {
	dialer, err := egress.NewOperatorDialer(c.CAFile, c.DNSServer)
	if err != nil {
		return nil, err
	}
	return dialer.Client(exportTimeout, maxAnswer), nil
}

// Resource says which node exports.
func Resource(node, version string) *resource.Resource {
	return resource.NewSchemaless(attribute.String("service.name", "eventrelay"),
		attribute.String("service.version", version), attribute.String("service.instance.id", node))
}

// Config says what is exported, and where to.
type Config struct {
	Metrics, Logs Collector
	Every         time.Duration // between two exports of metrics
	Node, Version string
}

// Validate returns the first setting that cannot be used, and its environment variable.
func (c Config) Validate() (env string, err error) {
	for name, collector := range map[string]Collector{"METRICS": c.Metrics, "LOGS": c.Logs} {
		if _, err := collector.Address(""); err != nil {
			return "RELAY_" + name + "_URL", err
		}
		if _, err := collector.Header(); err != nil {
			return "RELAY_" + name + "_HEADERS", err
		}
	}
	return "", nil
}

// destination returns what the exporter of a collector needs; an empty address if there is none.
func (c Collector) destination(path string) (address string, headers map[string]string, client *http.Client,
	err error) {
	u, err := c.Address(path)
	if err != nil || u == nil {
		return "", nil, nil, err
	}
	if headers, err = c.Header(); err != nil {
		return "", nil, nil, err
	}
	client, err = c.Client()
	return u.String(), headers, client, err
}
