package limit

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// BenchmarkTake is the hot path: it may cost 200 ns and no allocation.
func BenchmarkTake(b *testing.B) {
	l := node(b, "redis://"+embedded(b))
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "dst_" + strconv.Itoa(i)
	}
	b.Run("one key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.TakeToken("dst", 1e9, 1e9)
		}
	})
	b.Run("one key, refused", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.TakeToken("slow", 1, 1)
		}
	})
	b.Run("1000 keys", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			l.TakeToken(keys[i%len(keys)], 1e9, 1e9)
		}
	})
	b.Run("shared, parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				l.TakeSharedToken("send", "key_a", 1e9)
			}
		})
	})
}

// leaseScript does in Redis what addGranted does here, to measure whether a script would be faster.
var leaseScript = redis.NewScript(`local t = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[3] ~= '0' then redis.call('SET', KEYS[2], '', 'PX', ARGV[3]) end
return t`)

// BenchmarkLease requests one lease in exchanges of 200, as Run does, as a plain pipeline and with a script.
func BenchmarkLease(b *testing.B) {
	for name, addr := range map[string]func() string{
		"embedded": func() string { return embedded(b) }, "redis": func() string { return kit.Redis(b).Addr },
	} {
		c := redis.NewClient(&redis.Options{Addr: addr(), Protocol: 2})
		b.Cleanup(func() { c.Close() })
		must.Do(b, leaseScript.Load(b.Context(), c).Err())
		requests := make([]leaseRequest, maxLeaseBatch)
		for i := range requests {
			requests[i] = leaseRequest{
				bucket: &bucket{key: fmt.Sprintf("dst_%d", i)}, milliTokens: 500, window: 1, counterTTL: 3 * time.Second,
				fullIn: 3 * time.Second}
		}
		for kind, send := range map[string]func(redis.Pipeliner, leaseRequest){
			"transaction": func(p redis.Pipeliner, a leaseRequest) { a.send(b.Context(), p) },
			"pipeline":    func(p redis.Pipeliner, a leaseRequest) { a.send(b.Context(), p) },
			"script": func(p redis.Pipeliner, a leaseRequest) {
				leaseScript.EvalSha(b.Context(), p, []string{"tb:" + a.bucket.key + ":1", "tb:" + a.bucket.key + ":full"},
					a.milliTokens,
					3000, 3000)
			},
		} {
			exec := c.Pipelined
			if kind == "transaction" {
				exec = c.TxPipelined
			}
			b.Run(name+"/"+kind, func(b *testing.B) {
				for b.Loop() {
					must.Get(exec(context.Background(), func(p redis.Pipeliner) error {
						for _, a := range requests {
							send(p, a)
						}
						return nil
					}))(b)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(requests)), "ns/lease")
			})
		}
	}
}
