package command

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/eventrelay/relay/doctor"
)

// maxSecretFile bounds a file that holds a secret, in bytes; dozens of master keys fit.
const maxSecretFile = 64 << 10

// readSecret returns what a file holds without the white space around it, and the file's name if others can read or
// change it.
func readSecret(path string) (_ string, open []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const others = 0o006 // a group may be the one that a container runs in
	info, err := f.Stat()
	if err != nil {
		return "", nil, err
	}
	if info.Mode().Perm()&others != 0 {
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

// fromEnvironment is the text of a setting in the environment, or in the file that RELAY_…_FILE names; "" for neither.
// open is that file if others can read or change it.
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

// shown reports whether the text of a secret setting would show one to whoever lists processes: a URL need not hold
// any.
func (f setting) shown(text string) bool {
	return !strings.HasSuffix(f.flag, "-url") || strings.Contains(text, "@") || strings.Contains(text, "password=")
}

// warn logs what is allowed and should not be.
func (s Settings) warn(log *slog.Logger) {
	for _, name := range s.secretFlags {
		log.Warn("a secret was given as a flag, which every user of this machine can read in the list of processes; "+
			"give it in the environment or as a file", "flag", "--"+name, "better", "--"+name+"-file")
	}
	for _, path := range s.openFiles {
		log.Warn("others can read or change a file that holds a secret; run chmod 600", "file", path)
	}
	if len(s.ignored) > 0 {
		log.Warn("relay dev runs on engines of its own and ignores these settings; relay serve uses them",
			"settings", strings.Join(s.ignored, ", "))
	}
	for _, env := range s.WeakKeys() {
		log.Warn("an API key is easy to guess; set a random one of 24 characters or more", "setting", env)
	}
	if s.Stream().SendsPasswordInClear() {
		log.Warn("the password of the Kafka brokers travels in clear: RELAY_KAFKA_SASL is plain and there is no TLS; " +
			"set RELAY_KAFKA_TLS, or use scram-sha-512")
	}
	if doctor.Unencrypted(s.BaseURL) {
		log.Warn("API keys, ingest tokens and events travel unencrypted: RELAY_BASE_URL is http:// and its host is "+
			"public; use https://",
			"base_url", s.BaseURL)
	}
}

// ignoreEngines drops the settings of engines that dev does not use, and remembers which were given.
func (s *Settings) ignoreEngines() {
	eachSetting(&s.Config, func(f setting) {
		switch f.flag {
		case "kafka-brokers", "kafka-sasl", "kafka-tls", "redis-url", "clickhouse-url", "clickhouse-cluster", "search-url":
			if !f.value.IsZero() {
				s.ignored = append(s.ignored, f.env)
				f.value.SetZero()
			}
		}
	})
}
