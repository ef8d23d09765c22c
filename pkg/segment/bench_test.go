package segment

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// benchLog is a log that runs.
func benchLog(b *testing.B, tail int64) *Log {
	l := must.Get(Open(Config{Dir: b.TempDir(), Fsync: true, TailBytes: tail}))(b)
	must.Get(l.CreateTopic(Topic{Name: "events", Partitions: 1}, false))(b)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { must.Do(b, l.Run(ctx)) })
	b.Cleanup(func() {
		cancel()
		running.Wait()
		must.Do(b, l.Close())
	})
	return l
}

// BenchmarkAppend appends records of 1 KB, as many at once as a busy node.
func BenchmarkAppend(b *testing.B) {
	for _, atOnce := range []int{1, 64} {
		b.Run(fmt.Sprint(atOnce), func(b *testing.B) {
			p := benchLog(b, 0).Partition("events", 0)
			payload := []byte(strings.Repeat("x", 1000))
			b.ReportAllocs()
			for range b.N {
				var wait sync.WaitGroup
				for range atOnce {
					wait.Add(1)
					p.Append(1, entry{payload, func(int64, error) { wait.Done() }}, 0)
				}
				wait.Wait()
			}
		})
	}
}

// BenchmarkRead reads records of 1 KB from the files.
func BenchmarkRead(b *testing.B) {
	p := benchLog(b, 1).Partition("events", 0)
	var wait sync.WaitGroup
	for range 4096 {
		wait.Add(1)
		p.Append(1, entry{[]byte(strings.Repeat("x", 1000)), func(int64, error) { wait.Done() }}, 0)
	}
	wait.Wait()
	b.ReportAllocs()
	for i := range b.N {
		must.Get(p.Read(int64(i%4000), Most{64 << 10, 64, true}, nil))(b)
	}
}
