package command

import (
	"log/slog"
	"strings"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/egress"
)

// fromEnvironment returns a setting's value from the environment, as cli.SecretFromEnvironment does for a secret.
func (f setting) fromEnvironment(getenv func(string) string) (text string, open []string, err error) {
	if !f.secret {
		return getenv(f.env), nil, nil
	}
	return cli.SecretFromEnvironment(f.env, getenv)
}

// holdsSecret reports whether a flag's value exposes a secret in the list of processes. A URL does only if it has a
// user or a password.
func (f setting) holdsSecret(text string) bool {
	return !strings.HasSuffix(f.flag, "-url") || strings.Contains(text, "@") || strings.Contains(text, "password=")
}

// logWarnings logs settings that are allowed but unsafe or without effect.
func (s settings) logWarnings(log *slog.Logger) {
	for _, name := range s.secretFlags {
		log.Warn("a secret was given as a flag, which every user of this machine can read in the list of processes; "+
			"give it in the environment or as a file", "flag", "--"+name, "better", "--"+name+"-file")
	}
	for _, path := range s.readableFiles {
		log.Warn("other users can read or change a file with a secret; run chmod 600", "file", path)
	}
	if len(s.ignored) > 0 {
		log.Warn("relay dev uses its embedded engines and ignores these settings; relay serve uses them",
			"settings", strings.Join(s.ignored, ", "))
	}
	for _, env := range s.WeakKeys() {
		log.Warn("an API key is easy to guess; set a random one of 24 characters or more", "setting", env)
	}
	if s.Stream().SendsPasswordInClear() {
		log.Warn("the Kafka password is sent unencrypted: RELAY_KAFKA_SASL is plain and there is no TLS; " +
			"set RELAY_KAFKA_TLS, or use scram-sha-512")
	}
	if egress.Unencrypted(s.BaseURL) {
		log.Warn("API keys, ingest tokens and events are sent unencrypted: RELAY_BASE_URL is http:// and its host is "+
			"public; use https://",
			"base_url", s.BaseURL)
	}
}

// ignoreEngines clears the settings of engines, which dev does not use, and records in ignored which were set.
func (s *settings) ignoreEngines() {
	eachSetting(&s.Config, func(f setting) {
		switch f.flag {
		case "kafka-brokers", "kafka-sasl", "kafka-tls", "kafka-cert-file", "kafka-key-file", "redis-url", "redis-ca-file",
			"redis-cert-file", "redis-key-file", "clickhouse-url",
			"clickhouse-cluster", "read-url", "search-url":
			if !f.value.IsZero() {
				s.ignored = append(s.ignored, f.env)
				f.value.SetZero()
			}
		}
	})
}
