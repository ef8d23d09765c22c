package kit

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// outlivesClient is the one goroutine of franz-go that may outlive its client: on a busy machine it waits for a fetch
// that the closed client has given up.
const outlivesClient = "github.com/twmb/franz-go/pkg/kgo.(*fetchManager).manageFetchConcurrency"

// Bubble is synctest.Test for tests with clients of franz-go. A test whose goroutines have all ended but that one
// passes; without this it is a deadlock.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if left := blocked(); !strings.HasPrefix(fmt.Sprint(p), "deadlock: main bubble goroutine has exited") || left != "" {
			panic(fmt.Sprintf("%v\n\n%s", p, left))
		}
		t.Log("a goroutine of franz-go has outlived its client")
	}()
	synctest.Test(t, f)
}

// blocked returns the stacks of goroutines in bubbles, without those of outlivesClient.
func blocked() string {
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	var left []string
	for stack := range strings.SplitSeq(string(text), "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(head, "synctest bubble") && !strings.Contains(stack, outlivesClient) {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
