package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/eventrelay/relay/node/doctor"
)

// maxSecretFile bounds a file that holds a secret, in bytes; dozens of master keys fit.
const maxSecretFile = 64 << 10

// secretsMount is where Docker and Compose mount secrets. A container has no other users, and there the files of
// Compose must be readable for a user that the host does not have.
const secretsMount = "/run/secrets/"

// readSecret returns the content of a file without surrounding white space, and the file's name if other users can read
// or change it.
func readSecret(path string) (_ string, open []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", nil, err
	}
	if openToOthers(path, info.Mode()) {
		open = []string{path}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	text := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", nil, err
	case len(b) > maxSecretFile:
		return "", nil, fmt.Errorf("%s holds more than %d bytes", path, maxSecretFile)
	case text == "":
		return "", nil, fmt.Errorf("%s is empty", path)
	}
	return text, open, nil
}

// openToOthers reports whether other users can read or change a file with a secret. Group access is allowed: a
// container may need it.
func openToOthers(path string, mode fs.FileMode) bool {
	const others = 0o006
	return mode.Perm()&others != 0 && !strings.HasPrefix(path, secretsMount)
}

// fromEnvironment returns a setting's value from the environment, or from the file that RELAY_…_FILE names; "" without
// either. open names that file if other users can read or change it.
func (f setting) fromEnvironment(getenv func(string) string) (text string, open []string, err error) {
	text = getenv(f.env)
	if !f.secret {
		return text, nil, nil
	}
	path := getenv(f.env + "_FILE")
	if path == "" {
		return text, nil, nil
	}
	if text != "" {
		return "", nil, fmt.Errorf("%s and %s_FILE are both set; unset one of them", f.env, f.env)
	}
	text, open, err = readSecret(path)
	if err != nil {
		return "", nil, fmt.Errorf("%s_FILE: %w", f.env, err)
	}
	return text, open, nil
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
	if doctor.Unencrypted(s.BaseURL) {
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
