package scan

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// probe is a path at which a file is exposed by mistake. Only its content proves it: many websites answer every path.
type probe struct {
	path, name string
	signature  func(body []byte) bool
}

// probes are the paths that every scan asks for.
var probes = []probe{
	{"/.env", "environment file", isEnvFile},
	{"/.env.local", "environment file", isEnvFile},
	{"/.env.production", "environment file", isEnvFile},
	{"/.git/config", "Git configuration", contains(`(?m)^\[core\]\s*$`)},
	{"/.git/HEAD", "Git repository", contains(`^(?:ref: refs/\S+|[0-9a-f]{40}|[0-9a-f]{64})\s*$`)},
	{"/config.json", "configuration with a credential", isConfigWithCredential},
	{"/.npmrc", "npm credentials", contains(`(?m)^\s*(?:\S+:)?_(?:authToken|auth|password)\s*=\s*\S`)},
	{"/.aws/credentials", "AWS credentials", contains(`(?mi)^\s*aws_secret_access_key\s*=\s*\S`)},
	{"/docker-compose.yml", "Docker Compose file", contains(`(?m)^services:\s*(?:#.*)?$`)},
	{"/wp-config.php.bak", "WordPress configuration", contains(`define\s*\(\s*['"]DB_PASSWORD['"]`)},
	{"/backup.sql", "database dump", contains(`(?mi)^(?:CREATE TABLE|INSERT INTO|-- (?:MySQL|MariaDB) dump|` +
		`-- PostgreSQL database dump)\b`)},
	{"/.DS_Store", "list of files", func(b []byte) bool { return bytes.HasPrefix(b, []byte("\x00\x00\x00\x01Bud1")) }},
	{"/server.key", "private key", isPrivateKey},
	{"/id_rsa", "private key", isPrivateKey},
	{"/.vscode/sftp.json", "SFTP configuration", isSFTPConfig},
	{"/actuator/env", "environment of a Spring application", isActuator},
}

// matches reports whether a body is the file that the probe looks for. A page is none.
func (p *probe) matches(body []byte) bool { return !isHTML(body) && p.signature(body) }

func contains(pattern string) func([]byte) bool {
	compiled := regexp.MustCompile(pattern)
	return compiled.Match
}

var (
	assignment = regexp.MustCompile(`^(?:export\s+)?[A-Z][A-Z0-9_]*\s*=`)
	privateKey = regexp.MustCompile(`(?m)^-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*$`)
)

// isEnvFile reports whether the first line that is no comment is an assignment.
func isEnvFile(body []byte) bool {
	for line := range bytes.Lines(body) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			return assignment.Match(line)
		}
	}
	return false
}

func isPrivateKey(body []byte) bool { return privateKey.Match(body) }

// isConfigWithCredential reports whether a JSON object has a member that is named like a credential, with a text. A
// configuration without one may be public.
func isConfigWithCredential(body []byte) bool {
	var value map[string]any
	return depthOf(body) <= maxMapDepth && json.Unmarshal(body, &value) == nil && hasCredential(value)
}

// credentialNames are parts of names of members, in lower case without separators.
var credentialNames = []string{"password", "passwd", "secret", "privatekey", "secretkey"}

func hasCredential(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if text, ok := member.(string); ok && len(text) >= 6 && isCredentialName(name) || hasCredential(member) {
				return true
			}
		}
	case []any:
		for _, member := range v {
			if hasCredential(member) {
				return true
			}
		}
	}
	return false
}

func isCredentialName(name string) bool {
	name = strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
	if strings.Contains(name, "public") { // a key that browsers have to know
		return false
	}
	for _, word := range credentialNames {
		if strings.HasSuffix(name, word) {
			return true
		}
	}
	return false
}

func isSFTPConfig(body []byte) bool {
	var value struct {
		Host                     string
		Password, PrivateKeyPath string
	}
	return json.Unmarshal(body, &value) == nil && value.Host != "" && value.Password+value.PrivateKeyPath != ""
}

func isActuator(body []byte) bool {
	var value struct {
		PropertySources []json.RawMessage `json:"propertySources"`
	}
	return json.Unmarshal(body, &value) == nil && len(value.PropertySources) > 0
}
