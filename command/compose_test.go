package command

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// service is what the tests read of a service in docker-compose.yml.
type service struct {
	Image       string
	Profiles    []string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	ReadOnly    bool `yaml:"read_only"`
	Command     []string
}

func (s service) isRelay() bool { return strings.HasPrefix(s.Image, "eventrelay/relay:") }

func readCompose(t *testing.T) map[string]service {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(kit.Root(t), "docker-compose.yml")))(t)
	var file struct{ Services map[string]service }
	must.Do(t, yaml.Unmarshal(text, &file))
	if len(file.Services) < 15 {
		t.Fatalf("%d services", len(file.Services))
	}
	return file.Services
}

// Each image has a version; the relay's is that of this tree. Nothing is reachable from outside of the machine.
func TestComposeImagesAndPorts(t *testing.T) {
	version := must.Get(os.ReadFile(filepath.Join(kit.Root(t), "VERSION")))(t)
	own := "eventrelay/relay:" + strings.TrimSpace(string(version))
	pinned := regexp.MustCompile(`^[a-z/-]+:v?\d+\.\d+(\.\d+)?(-alpine)?$`)
	for name, s := range readCompose(t) {
		if s.isRelay() && s.Image != own || !s.isRelay() && !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %s", name, s.Image)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:${") {
				t.Errorf("%s publishes %s beyond loopback, or on a port that cannot be changed", name, port)
			}
		}
	}
}

// Every variable of a relay is a setting, and secrets are given as files that deploy/compose/secrets.sh writes. Nodes
// have a name and a volume of their own, and nothing else that they can write.
func TestComposeSettings(t *testing.T) {
	settings := map[string]bool{} // by variable: whether it is a secret
	eachSetting(&nodeconfig.Config{}, func(f setting) { settings[f.env] = f.secret })
	dir := writeSecrets(t)
	used, nodes := map[string]bool{}, 0
	for name, s := range readCompose(t) {
		if !s.isRelay() {
			continue
		}
		if !s.ReadOnly || !slices.Contains(s.Volumes, "./secrets/relay:/run/secrets:ro") {
			t.Errorf("%s: can write to its root or has no secrets: %v", name, s.Volumes)
		}
		for variable, value := range s.Environment {
			file, isFile := strings.CutSuffix(variable, "_FILE")
			secret, known := settings[variable]
			switch {
			case known && !secret:
			case !isFile || !settings[file]:
				t.Errorf("%s: %s is no setting, or a secret without _FILE", name, variable)
			case !strings.HasPrefix(value, cli.SecretsMount):
				t.Errorf("%s: %s=%s", name, variable, value)
			default:
				if _, err := os.Stat(filepath.Join(dir, "relay", strings.TrimPrefix(value, cli.SecretsMount))); err != nil {
					t.Errorf("%s: %s: %v", name, variable, err)
				}
			}
		}
		if slices.Equal(s.Command, []string{"migrate"}) {
			continue
		}
		nodes++
		own := s.Environment["RELAY_NODE_NAME"]
		if own == "" || used[own] || !slices.Contains(s.Volumes, own+":/var/lib/relay") || len(s.Volumes) != 2 {
			t.Errorf("%s: node name %q, volumes %v", name, own, s.Volumes)
		}
		used[own] = true
	}
	if nodes < 7 {
		t.Errorf("%d nodes", nodes)
	}
	// It has the Idempotency-Keys of events: a restart must not forget them, nor a full memory drop them.
	redis := readCompose(t)["redis"]
	is.Has(t, strings.Join(redis.Command, " "), "--appendonly yes --dir /data ")
	is.Has(t, strings.Join(redis.Command, " "), "--maxmemory-policy noeviction")
	is.Has(t, strings.Join(redis.Volumes, " "), "redis:/data")
}

// A relay takes the settings of docker-compose.yml and the secrets that are written for it.
func TestComposeSettingsAreValid(t *testing.T) {
	dir := writeSecrets(t)
	unset := regexp.MustCompile(`\$\{[A-Z_]+:-([^{}]*)\}`) // the inner one first
	for name, s := range readCompose(t) {
		if !s.isRelay() {
			continue
		}
		getenv := func(variable string) string {
			value := s.Environment[variable]
			for unset.MatchString(value) {
				value = unset.ReplaceAllString(value, "$1")
			}
			if file, ok := strings.CutPrefix(value, cli.SecretsMount); ok {
				return filepath.Join(dir, "relay", file)
			}
			return value
		}
		var out, errs bytes.Buffer
		code := Program{Version: "1.0.0"}.Run(t.Context(), []string{"migrate", "--print"}, getenv, &out, &errs)
		if code != 0 || !strings.Contains(out.String(), "CREATE DATABASE IF NOT EXISTS relay") {
			t.Errorf("%s: exit %d, %s%.200s", name, code, &errs, &out)
		}
	}
}

// Secrets are written once, and differ; only the owner of the directory gets at them on the host, every user of a
// container that mounts a folder can read it.
func TestComposeSecrets(t *testing.T) {
	dir := writeSecrets(t)
	read := func() map[string]string {
		files := map[string]string{}
		must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil || info.Mode().Perm() != 0o444 {
				t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
			}
			text, err := os.ReadFile(path)
			files[strings.TrimPrefix(path, dir+"/")] = string(text)
			return err
		}))
		return files
	}
	first := read()
	runSecrets(t, dir)
	if again := read(); !reflect.DeepEqual(again, first) {
		t.Errorf("a second run changed secrets: %v, before %v", again, first)
	}
	other := writeSecrets(t)
	for name := range first {
		text, err := os.ReadFile(filepath.Join(other, name))
		if err != nil || string(text) == first[name] {
			t.Errorf("%s is the same everywhere: %v", name, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	is.Lacks(t, first["redis/users.acl"], first["relay/redis_password"], "Redis gets the password itself")
}

// What services mount from the repository is there, and the load balancer knows every node that takes requests.
func TestComposeFilesExist(t *testing.T) {
	root := kit.Root(t)
	proxy := must.Get(os.ReadFile(filepath.Join(root, "deploy/compose/haproxy.cfg")))(t)
	for name, s := range readCompose(t) {
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, "./") || strings.HasPrefix(source, "./secrets") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		role := s.Environment["RELAY_ROLES"]
		if takes := role == "ingest" || role == "api"; takes != strings.Contains(string(proxy), " "+name+":8080") {
			t.Errorf("%s has the role %q; in haproxy.cfg: %v", name, role, !takes)
		}
	}
}

// writeSecrets writes secrets to a new directory.
func writeSecrets(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "secrets") // which a fresh clone does not have
	runSecrets(t, dir)
	return dir
}

func runSecrets(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command(filepath.Join(kit.Root(t), "deploy/compose/secrets.sh"), dir).CombinedOutput()
	must.Do(t, err, "secrets.sh: %s", out)
}
