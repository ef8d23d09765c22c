package plan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command/cli"
)

func runPlanWith(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaint bytes.Buffer
	getenv := func(string) string { return "" }
	code = planCommand(t.Context(), cli.Call{Args: args, Getenv: getenv, Stdout: &out, Stderr: &complaint})
	return code, out.String(), complaint.String()
}

func TestPlanPrintsEveryPart(t *testing.T) {
	args := strings.Fields("--events-per-second 200 --size 2KB --destinations 2 --attempts 1.2 --retention 90d --peak 2")
	code, out, complaint := runPlanWith(t, args...)
	for _, want := range []string{"200 events a second of 2000 B, 2 destinations, 1.2 attempts",
		"at the peak 400 events and 960 requests a second; 90 days", "\nkafka ", "\nclickhouse ", "\nredis ",
		"ingest", "dispatch", "write",
		"RELAY_PARTITIONS=32 RELAY_REPLICATION_FACTOR=3 RELAY_RETENTION_DAYS=90", "\nASSUMED ", "\nCPU of kafka ",
		"measured after merges"} {
		if code != cli.ExitDone || complaint != "" || !strings.Contains(out, want) {
			t.Fatalf("%d %s: %q is missing in\n%s", code, complaint, want, out)
		}
	}
	_, asJSON, _ := runPlanWith(t, append(args, "--json")...)
	var p Plan
	if err := json.Unmarshal([]byte(asJSON), &p); err != nil || p.Work.Size != 2000 || p.Work.RetentionDays != 90 ||
		len(p.Parts) < 4 || len(p.Assumed) < 10 {
		t.Errorf("%v: %s", err, asJSON)
	}
	if code, help, _ := runPlanWith(t, "--help"); code != cli.ExitDone ||
		!strings.HasPrefix(help, "Usage:\n  relay plan ") ||
		!strings.Contains(help, "\n  --size VALUE\n        Body of an event") {
		t.Errorf("--help ends with %d: %s", code, help)
	}
}

// Every fault is reported with its flag, all at once.
func TestPlanFaultsAreNamed(t *testing.T) {
	for args, wants := range map[string][]string{
		"":                         {"--events-per-second: is required", "--size: is required"},
		"--events-per-second many": {`--events-per-second: "many" is not a number`, "--size: is required"},
		"--events-per-second 5 --size 2XB --retention 1.5 more": {`--size: "2XB" is not a number of bytes`,
			`--retention: "1.5" is not a whole number`, `unexpected argument "more"`},
		"--events-per-second 0 --size 11MB": {"--events-per-second: 0 is out of range, use 0.01 to 1000000",
			"--size: 11000000 is out of range"},
		"--events-per-second NaN --size 1":                  {"--events-per-second: NaN is out of range"},
		"--events-per-second 1 --size 1e300":                {"--size:"},
		"--events-per-second 1 --size 1 --attempts 0.5":     {"--attempts: 0.5 is out of range, use 1 to 50"},
		"--events-per-second 1 --size 1 --nodes 3":          {"-nodes", "relay plan --help"},
		"--events-per-second 1 --size 1 --cores 0 --peak 0": {"--cores: 0", "--peak: 0"},
		"--events-per-second 1 --size 1 --log-hours 0":      {"--log-hours: 0 is out of range, use 1 to 720"},
		"--events-per-second 1 --size 1 --compression 0":    {"--compression: 0 is out of range"},
		"--events-per-second 1 --size 1 --deduplicated 2":   {"--deduplicated: 2 is out of range, use 0 to 1"},
		"--events-per-second 1 --size 1 --destinations 51":  {"--destinations: 51 is out of range, use 0 to 50"},
	} {
		code, out, complaint := runPlanWith(t, strings.Fields(args)...)
		for _, want := range wants {
			if code != cli.ExitMisused || out != "" || !strings.Contains(complaint, want) {
				t.Errorf("%s: %d, %q is missing in %s", args, code, want, complaint)
			}
		}
	}
}
