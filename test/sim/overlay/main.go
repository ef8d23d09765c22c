// Command overlay writes a Go runtime whose choices follow from a seed, for `go build -overlay`: a bubble of
// testing/synctest then runs the same way each time.
//
// Without it a seed decides little. The runtime takes a random case of a select, lets timers of one moment fire in
// random order, reads maps in random order and takes the processor from a goroutine after 10 ms of real time. Here
// these come from one generator, and nothing depends on real time: a build has no sysmon, as on wasm, and a
// mutex measures the time of the bubble. Which goroutine runs next is a choice of the generator too, so that seeds try
// many orders. Time also passes while a goroutine waits for a mutex, as a paused process may hold it. The caller sets
// GOMAXPROCS=1 and GOGC=off.
//
// Usage: overlay DIRECTORY. It writes the changed files and overlay.json. Each change names the text that it replaces:
// a Go version with another text needs another change, and overlay fails.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// edit replaces a text of a file of the runtime, which must occur once.
type edit struct{ file, from, to string }

var edits = []edit{
	{"rand.go", "	if len(startupRand) >= 16 &&", `	for i := range seed { // the same maps in each process
		seed[i] = byte(i + 1)
	}
	if false && len(startupRand) >= 16 &&`},
	{"rand.go", `	} else {
		if readRandom(seed[:]) != len(seed) || allZero(seed[:]) {`, `	} else if false {
		if readRandom(seed[:]) != len(seed) || allZero(seed[:]) {`},
	{"rand.go", `	mp := getg().m
	c := &mp.chacha8
`, `	mp := getg().m
	if simState != 0 && mp.curg != nil && mp.curg.bubble != nil {
		return simNext()
	}
	c := &mp.chacha8
`},
	{"rand.go", "// rand32 is uint32(rand())", `// simState is the state of the choices; 0 = they are not seeded.
var simState uint64

//go:linkname simSeed

// simSeed makes the choices in bubbles follow from a seed from now on.
func simSeed(seed uint64) { simState = seed | 1<<63 }

// simNext is SplitMix64.
//
//go:nosplit
func simNext() uint64 {
	simState += 0x9e3779b97f4a7c15
	z := simState
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// simCheaprand is cheaprand for choices that a bubble can observe.
//
//go:nosplit
func simCheaprand() uint32 {
	if mp := getg().m; simState != 0 && mp.curg != nil && mp.curg.bubble != nil {
		return uint32(simNext())
	}
	return cheaprand()
}

// rand32 is uint32(rand())`},
	{"select.go", "j := cheaprandn(uint32(norder + 1))", "j := uint32((uint64(simCheaprand()) * uint64(norder+1)) >> 32)"},
	{"time.go", "t.rand = cheaprand()", "t.rand = simCheaprand()"},
	{"sema.go", `func internal_sync_nanotime() int64 {
`, `func internal_sync_nanotime() int64 {
	if b := getg().bubble; b != nil {
		return b.now
	}
`},
	{"proc.go", `	if !haveSysmon && next {
`, `	if simState != 0 && gp.bubble != nil {
		next = next && simNext()&1 == 0
	} else if !haveSysmon && next {
`},
	{"runtime2.go", `	waitReasonSyncCondWait:          true,
`, `	waitReasonSyncCondWait:          true,
	waitReasonSyncMutexLock:         true, // a paused process holds locks while time passes
	waitReasonSyncRWMutexRLock:      true,
	waitReasonSyncRWMutexLock:       true,
`},
	{"proc.go", `	if !inheritTime {
		mp.p.ptr().schedtick++
`, `	if !inheritTime && (simState == 0 || gp.bubble != nil) {
		mp.p.ptr().schedtick++
`},
	{"proc.go", `const haveSysmon = GOARCH != "wasm"`, "const haveSysmon = false"},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: overlay DIRECTORY")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal("overlay: ", err)
	}
}

func write(dir string) error {
	root, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	runtime := filepath.Join(strings.TrimSpace(string(root)), "src", "runtime")
	texts, replace := make(map[string]string), make(map[string]string)
	for _, e := range edits {
		if texts[e.file] == "" {
			text, err := os.ReadFile(filepath.Join(runtime, e.file))
			if err != nil {
				return err
			}
			texts[e.file] = string(text)
		}
		if n := strings.Count(texts[e.file], e.from); n != 1 {
			return fmt.Errorf("runtime/%s has %d times what is to change, not once: adapt the edit to this version of Go:\n%s",
				e.file, n, e.from)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.from, e.to, 1)
	}
	for name, text := range texts {
		to := filepath.Join(dir, name)
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
		replace[filepath.Join(runtime, name)] = to
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o644)
}
