package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Downloaded files are compared with the repository's checksums at every build. A replaced file is downloaded again,
// whatever the stamp file next to it says.
func TestFetchedFilesAreCompared(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"tools/chdb", "test/engines"} {
		must.Do(t, os.CopyFS(filepath.Join(root, dir), os.DirFS(dir)))
	}
	tools := t.TempDir() // contains download tools that fail, so that nothing is downloaded
	for _, name := range []string{"npm", "mvn", "java"} {
		must.Do(t, os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\nexit 7\n"), 0o700))
	}
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	fetch := func(script string) string {
		t.Helper()
		cmd := exec.Command("sh", filepath.Join(root, script))
		cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s accepts a replaced file:\n%s", script, out)
		}
		return string(out)
	}
	lock := readFile(t, "tools/chdb/package-lock.json")
	version := regexp.MustCompile(`"version": "(26[^"]*)",\s+"integrity": "([^"]*)"`).FindStringSubmatch(string(lock))
	if version == nil {
		t.Fatal("the lock file pins no libchdb")
	}
	put("bin/lib/libchdb.version", "@chdb/lib-linux-x64-gnu "+version[1]+" "+version[2]+"\n")
	put("bin/lib/libchdb.so", "something else")
	is.Has(t, fetch("tools/chdb/fetch.sh"), "is not what was fetched")

	sum := must.Get(exec.Command("sh", "-c", "cksum <test/engines/pom.xml").Output())(t)
	put("bin/engines/kafka/pom.sum", string(sum))
	put("bin/engines/kafka/kafka_2.13-4.1.0.jar", "something else")
	is.Has(t, fetch("test/engines/fetch.sh"), "are not what was fetched")
}

// On machines whose library is not pinned, fetch.sh takes the same version, says that only npm's registry vouches for
// it, and later accepts no other library.
func TestUnpinnedLibrary(t *testing.T) {
	for system, name := range map[string]string{
		"Linux aarch64": "linux-arm64-gnu", "Darwin arm64": "darwin-arm64", "Darwin x86_64": "darwin-x64",
	} {
		root, tools := t.TempDir(), t.TempDir()
		must.Do(t, os.CopyFS(filepath.Join(root, "tools/chdb"), os.DirFS("tools/chdb")))
		kernel, processor, _ := strings.Cut(system, " ")
		for program, script := range map[string]string{
			"uname": `[ "$1" = -m ] && echo ` + processor + ` || echo ` + kernel,
			"npm": `[ "$1" = install ] || exit 1
				for last; do case $last in @chdb/*) package=${last%@*} version=${last##*@}; esac; done
				mkdir -p "node_modules/$package" && echo "$version $LIBRARY" >"node_modules/$package/libchdb.so"`,
		} {
			must.Do(t, os.WriteFile(filepath.Join(tools, program), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		}
		fetch := func(library, want string) {
			t.Helper()
			cmd := exec.Command("sh", filepath.Join(root, "tools/chdb/fetch.sh"))
			cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "LIBRARY="+library)
			if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
				t.Errorf("%s: %s, want %s", system, out, want)
			}
		}
		installed := filepath.Join(root, "bin/lib/libchdb.so")
		fetch("first", "@chdb/lib-"+name+" 26.7.3-stable.1 is not pinned here")
		is.Equal(t, string(readFile(t, installed)), "26.7.3-stable.1 first\n", "%s: installed", system)
		fetch("second", "already in")
		must.Do(t, os.WriteFile(installed, []byte("something else"), 0o600))
		fetch("second", "is not what was fetched first")
		fetch("first", "done")
	}
}

// pip installs only packages whose checksums are in the repository, and runs no set-up scripts of packages.
func TestPythonPackagesArePinned(t *testing.T) {
	for requirements, script := range map[string]string{
		"pkg/verify/testdata/vendors/requirements.txt":                       "test/vendors.sh",
		"sdk/examples/python/requirements.txt":                               "test/vendors.sh",
		"dispatcher/destination/webhook/testdata/receivers/requirements.txt": "test/vendors.sh",
		"test/contract/requirements.txt":                                     "test/contract/schemathesis.sh",
		"sdk/python/requirements.txt":                                        "sdk/clients.sh",
	} {
		text := string(readFile(t, script))
		for _, flag := range []string{"--require-hashes", "--only-binary=:all:", "--no-deps"} {
			is.Has(t, text, flag, "%s calls pip without %s", script, flag)
		}
		pins := strings.ReplaceAll(string(readFile(t, requirements)), "\\\n", "")
		for line := range strings.Lines(pins) {
			pinned := regexp.MustCompile(`^[a-z0-9_-]+==[0-9.]+(a[0-9]+)?( +--hash=sha256:[0-9a-f]{64})+$`)
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !pinned.MatchString(line) {
				t.Errorf("%s: %s", requirements, line)
			}
		}
	}
}
