package command

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/web"
)

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

// warnMisspelt logs variables whose names are close to a setting's. Other unknown RELAY_ variables may belong to other
// programs.
func warnMisspelt(log *slog.Logger, environ []string) {
	known := []string{engineKeyEnv, cli.APIKeyEnv, cli.APIKeyFileEnv}
	eachSetting(&nodeconfig.Config{}, func(f setting) {
		known = append(known, f.env)
		if f.secret {
			known = append(known, f.env+"_FILE")
		}
	})
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "RELAY_") || slices.Contains(known, name) {
			continue
		}
		if near := web.Nearest(name, known, cli.MaxTypos); near != "" {
			log.Warn("no setting has this name; the variable is ignored", "variable", name, "did_you_mean", near)
		}
	}
}
