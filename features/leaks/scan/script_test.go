package scan

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// scripts returns the paths of the scripts that a script names.
func scripts(t *testing.T, text string) (paths []string) {
	t.Helper()
	for _, n := range readBody(t, script, text).next {
		if n.kind == script {
			paths = append(paths, n.url.Path)
		}
	}
	return paths
}

func TestChunksOfTables(t *testing.T) {
	for text, want := range map[string]string{
		`"js/"+e+"."+{12:"ab34","cart":"cd-5"}[e]+".js"`:                    "/js/12.ab34.js /js/cart.cd-5.js",
		`"js/" + e + "-" + { 1 : "a" , 2 : "b" }[e] + ".js"`:                "/js/1-a.js /js/2-b.js",
		`"js/"+({12:"cart"}[e]||e)+"."+{12:"ab34",13:"cd56"}[e]+".js"`:      "/js/cart.ab34.js /js/13.cd56.js",
		`"js/"+e+"."+{12:ab34,:"a",13:"",14:"x/y","":"z",15:"ok"}[e]+".js"`: "/js/15.ok.js",
		`"js/"+e+"."+{` + strings.Repeat(`"a":1,`, 500) + `7:"b"}[e]+".js"`: "/js/7.b.js",
	} {
		is.Equal(t, strings.Join(scripts(t, text), " "), want, "%.80s", text)
	}
	if got := scripts(t, `"js/"+e+"."+{`+strings.Repeat(`1:"a",2:"b",`, maxChunks)+`}[e]+".js"`); len(got) != maxChunks {
		t.Errorf("%d chunks of one table", len(got))
	}
}

// A table of chunks costs by its length, whatever stands in it: a few kilobytes of gzip may hold megabytes of it.
func TestTableCostsByItsLength(t *testing.T) {
	runtime.LockOSThread() // threadTime is that of one thread
	defer runtime.UnlockOSThread()
	cost := func(text string) time.Duration {
		least := time.Hour
		for range 3 {
			before := threadTime(t)
			readBody(t, script, text)
			least = min(least, threadTime(t)-before)
		}
		return least
	}
	const size = 128 << 10
	plain := cost(strings.Repeat(`function a(e){return "b"+c}`+"\n", size/28))
	for _, unit := range []string{"a", "a ", ",", ",a", `,"`, `a:"`, `1:"a",`} {
		table := "{" + strings.Repeat(unit, size/2/len(unit)) + "}[e]"
		if got := cost(`"a"+(` + table + `||e)+"."+` + table + `+".js"`); got > 10*plain {
			t.Errorf("a table of %q takes %v, a script of that length %v", unit, got, plain)
		}
	}
}

// threadTime returns the processor time that this thread has used.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	must.Do(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used))
	return time.Duration(used.Nano())
}
