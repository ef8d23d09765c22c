package kit

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Listeners returns the TCP addresses on which a process and all its descendants listen, from /proc.
func Listeners(t testing.TB, pid int) []string {
	t.Helper()
	owned := map[string]bool{} // inodes of the processes' sockets
	for _, p := range processTree(t, pid) {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p))
		if err != nil || len(links) == 0 {
			t.Fatalf("list open files of process %d: %v", p, err)
		}
		for _, link := range links {
			target, err := os.Readlink(link)
			if inode, socket := strings.CutPrefix(target, "socket:["); err == nil && socket {
				owned[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var out []string
	for _, table := range []string{"tcp", "tcp6"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			const listening = "0A"
			fields := strings.Fields(lines.Text())
			if len(fields) > 9 && fields[3] == listening && owned[fields[9]] {
				out = append(out, procAddress(t, fields[1]))
			}
		}
	}
	slices.Sort(out)
	return out
}

// processTree returns a process and all its descendants.
func processTree(t testing.TB, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		// The name in parentheses may contain anything; the state and the parent's pid follow the last parenthesis.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		child, childErr := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if parent, err := strconv.Atoi(fields[1]); err == nil && childErr == nil {
			children[parent] = append(children[parent], child)
		}
	}
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// procAddress parses an address of /proc/net/tcp: 32-bit words in little-endian order, then the port, all in
// hexadecimal.
func procAddress(t testing.TB, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+4 <= len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		t.Fatalf("cannot parse the address %q", text)
	}
	return netip.AddrPortFrom(addr, uint16(n)).String()
}
