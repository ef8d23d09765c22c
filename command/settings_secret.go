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

// readSecret returns what a file holds without the white space around it.
func readSecret(path string) (_ string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	text := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxSecretFile:
		return "", fmt.Errorf("%s holds more than %d bytes", path, maxSecretFile)
	case text == "":
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// fromEnvironment is the text of a setting in the environment, or in the file that RELAY_…_FILE names; "" for neither.
func (f setting) fromEnvironment(getenv func(string) string) (string, error) {
	text := getenv(f.env)
	if !f.secret {
		return text, nil
	}
	path := getenv(f.env + "_FILE")
	if path == "" {
		return text, nil
	}
	if text != "" {
		return "", fmt.Errorf("%s and %s_FILE are both set; unset one of them", f.env, f.env)
	}
	text, err := readSecret(path)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", f.env, err)
	}
	return text, nil
}

// setFile sets a secret from a file.
func (f setting) setFile(path string) error {
	text, err := readSecret(path)
	if err != nil {
		return err
	}
	return f.set(text)
}

// shown reports whether the text of a secret setting would show one to whoever lists processes: a URL need not hold any.
func (f setting) shown(text string) bool {
	return !strings.HasSuffix(f.flag, "-url") || strings.Contains(text, "@") || strings.Contains(text, "password=")
}

// warn logs what is allowed and should not be.
func (s Settings) warn(log *slog.Logger) {
	for _, name := range s.secretFlags {
		log.Warn("a secret was given as a flag, which every user of this machine can read in the list of processes; "+
			"give it in the environment or as a file", "flag", "--"+name, "better", "--"+name+"-file")
	}
	for _, env := range s.WeakKeys() {
		log.Warn("an API key is easy to guess; set a random one of 24 characters or more", "setting", env)
	}
	if s.Stream().Exposed() {
		log.Warn("the password of the Kafka brokers travels in clear: RELAY_KAFKA_SASL is plain and there is no TLS; " +
			"set RELAY_KAFKA_TLS, or use scram-sha-512")
	}
	if doctor.Unencrypted(s.BaseURL) {
		log.Warn("API keys, ingest tokens and events travel unencrypted: RELAY_BASE_URL is http:// and its host is public; use https://",
			"base_url", s.BaseURL)
	}
}
