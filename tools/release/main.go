// Command release writes what goes with a binary of the relay: its bill of materials in CycloneDX, and the licences of
// the modules in it. It takes the modules from the binary itself, and their files from the module cache. Without a
// binary it writes the bill of materials of packages, which are its arguments: each a package URL, an equals sign and a
// file.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// minCovered is the share of a file in percent that must be text of known licences.
const minCovered = 75

// licenceFile matches the names of files with licences, copyright notices and patent grants.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents|copyright)([-._].*)?$`)

func main() {
	binary := flag.String("binary", "", "the built program")
	version := flag.String("version", "", "its version")
	sbom := flag.String("sbom", "", "file for the bill of materials")
	licences := flag.String("licences", "", "file for the texts of all licences")
	library := flag.String("library", "", "the embedded ClickHouse that the packages have beside the program, or none")
	stamp := flag.String("stamp", "", "file of tools/chdb/fetch.sh that names the package of the library")
	lock := flag.String("lock", "", "without a binary: the package-lock.json of the packages for npm")
	flag.Parse()
	var err error
	if *binary == "" {
		err = runPackages(*version, *sbom, *lock, flag.Args())
	} else {
		err = run(*binary, *version, *sbom, *licences, *library, *stamp)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// module is one module of Go in the binary, the library beside it, or a package.
type module struct {
	name, version, purl string
	checksum            cdx.Property
	sha256              string            // of a file that is released
	ids                 []string          // SPDX ids of its licences
	texts               map[string][]byte // of its licences, by file name
}

func run(binary, version, sbom, licences, library, stamp string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	modules, err := standardLibrary(info)
	if err != nil {
		return err
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil && dep.Replace.Sum == "" {
			continue // another directory of this repository
		}
		m, err := readModule(cmp.Or(dep.Replace, dep))
		if err != nil {
			return err
		}
		modules = append(modules, m)
	}
	if err := writeLicences(licences, modules); err != nil {
		return err
	}
	if library != "" {
		m, err := readLibrary(library, stamp)
		if err != nil {
			return err
		}
		modules = append(modules, m)
	}
	return writeSBOM(sbom, info.Main.Path, version, modules)
}

// runPackages lists packages, and the packages of npm that applications get with them.
func runPackages(version, sbom, lock string, packages []string) error {
	modules, err := readLock(lock)
	if err != nil {
		return err
	}
	for _, p := range packages {
		purl, file, found := strings.Cut(p, "=")
		if !found {
			return fmt.Errorf("%s is not a package URL and a file", p)
		}
		sum, err := sha256Of(file)
		if err != nil {
			return err
		}
		name := filepath.Base(file)
		_, number, _ := strings.Cut(purl, "@")
		modules = append(modules, module{name: name, version: number, purl: purl + "?file_name=" + name, sha256: sum,
			checksum: cdx.Property{Name: "file", Value: name}, ids: []string{"Apache-2.0"}})
	}
	return writeSBOM(sbom, "github.com/eventrelay/relay/sdk", version, modules)
}

// readLock returns what a package-lock.json installs without the packages for development.
func readLock(lock string) (modules []module, err error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var locked struct {
		Packages map[string]struct {
			Version, Integrity, License string
			Dev                         bool
		}
	}
	if err := json.Unmarshal(text, &locked); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(locked.Packages)) {
		name, p := strings.TrimPrefix(path, "node_modules/"), locked.Packages[path]
		if name != "" && !p.Dev {
			modules = append(modules, npmModule(name, p.Version, p.Integrity, p.License))
		}
	}
	return modules, nil
}

func npmModule(name, version, integrity, licence string) module {
	return module{
		name: name, version: version, purl: "pkg:npm/" + strings.ReplaceAll(name, "@", "%40") + "@" + version,
		checksum: cdx.Property{Name: "npm:integrity", Value: integrity}, ids: []string{licence},
	}
}

func sha256Of(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// readLibrary returns the library as the package of npm that it came from.
func readLibrary(library, stamp string) (m module, err error) {
	text, err := os.ReadFile(stamp)
	if err != nil {
		return m, err
	}
	words := strings.Fields(string(text)) // package, version, integrity
	if len(words) < 3 {
		return m, fmt.Errorf("%s does not name a package", stamp)
	}
	m = npmModule(words[0], words[1], words[2], "Apache-2.0")
	m.sha256, err = sha256Of(library)
	return m, err
}

// standardLibrary returns the library of Go, whose licence is beside the compiler.
func standardLibrary(info *debug.BuildInfo) ([]module, error) {
	root, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(root)), "LICENSE"))
	return []module{{
		name: "std", version: info.GoVersion, purl: "pkg:golang/std@" + info.GoVersion,
		checksum: cdx.Property{Name: "go:version", Value: info.GoVersion},
		ids:      []string{"BSD-3-Clause"}, texts: map[string][]byte{"LICENSE": text},
	}}, err
}

// readModule finds a module in the module cache and reads its licences. A module without one is an error.
func readModule(dep *debug.Module) (module, error) {
	m := module{
		name: dep.Path, version: dep.Version, purl: "pkg:golang/" + dep.Path + "@" + dep.Version,
		checksum: cdx.Property{Name: "go:sum", Value: dep.Sum}, texts: make(map[string][]byte),
	}
	out, err := exec.CommandContext(context.Background(),
		"go", "mod", "download", "-json", dep.Path+"@"+dep.Version).Output()
	if err != nil {
		return m, fmt.Errorf("%s: %w: %s", dep.Path, err, out)
	}
	var found struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &found); err != nil {
		return m, err
	}
	if found.Sum != dep.Sum {
		return m, fmt.Errorf("%s: the module cache has %s, the binary %s", dep.Path, found.Sum, dep.Sum)
	}
	ids := make(map[string]bool)
	err = filepath.WalkDir(found.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !licenceFile.MatchString(d.Name()) || filepath.Ext(path) == ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(found.Dir, path)
		if err != nil {
			return err
		}
		m.texts[name] = text
		if cover := licensecheck.Scan(text); cover.Percent >= minCovered {
			for _, match := range cover.Match {
				ids[match.ID] = true
			}
			delete(ids, "GooglePatentsFile") // a grant beside a licence, without an SPDX id
		}
		return nil
	})
	m.ids = slices.Sorted(maps.Keys(ids))
	if err == nil && len(m.ids) == 0 {
		err = fmt.Errorf("%s: no known licence in %s", dep.Path, found.Dir)
	}
	return m, err
}

func writeLicences(path string, modules []module) error {
	var b bytes.Buffer
	for _, m := range modules {
		for _, name := range slices.Sorted(maps.Keys(m.texts)) {
			fmt.Fprintf(&b, "==== %s %s: %s\n\n%s\n\n", m.name, m.version, name, bytes.TrimSpace(m.texts[name]))
		}
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func writeSBOM(path, main, version string, modules []module) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH must be the Unix time of the commit")
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: time.Unix(seconds, 0).UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: main, Type: cdx.ComponentTypeApplication, Name: strings.TrimPrefix(main, "github.com/eventrelay/"),
			Version:    version,
			PackageURL: "pkg:golang/" + main + "@" + strings.ReplaceAll(version, "+", "%2B"),
			Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
	}
	var components []cdx.Component
	var refs []string
	for _, m := range modules {
		var ids cdx.Licenses
		for _, id := range m.ids {
			ids = append(ids, cdx.LicenseChoice{License: &cdx.License{ID: id}})
		}
		refs = append(refs, m.purl)
		c := cdx.Component{
			BOMRef: m.purl, Type: cdx.ComponentTypeLibrary, Name: m.name, Version: m.version, PackageURL: m.purl,
			Licenses: &ids, Properties: &[]cdx.Property{m.checksum},
		}
		if m.sha256 != "" {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: m.sha256}}
		}
		components = append(components, c)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main, Dependencies: &refs}}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	encoder := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true)
	return errors.Join(encoder.EncodeVersion(bom, cdx.SpecVersion1_6), f.Close())
}
