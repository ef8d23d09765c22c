package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A segment that cannot grow is an error for the producer. When it can grow again, the same producer goes on, and after
// a restart exactly the acknowledged records are there. The test limits the size of files (RLIMIT_FSIZE) in place of a
// full disk; the limit is for a whole process.
func TestWriteError(t *testing.T) {
	p := startChild(t, "fill "+t.TempDir())
	var said []string
	for p.out.Scan() {
		said = append(said, p.out.Text())
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %s", err, strings.Join(said, "\n"))
	}
	t.Log(strings.Join(said, "\n"))
}

func childFill(dir string) error {
	cfg := DefaultConfig()
	cfg.DataDir = dir
	s, err := New(cfg, Deps{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	acked, err := fill(s.Addr())
	if err != nil {
		return err
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	return checkFilled(cfg, acked)
}

// fill produces until writes fail, then a while longer, and then after writes work again.
func fill(addr string) (map[int64]byte, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(context.Background(), 1, 1, nil, "relay.events"); err != nil {
		return nil, err
	}
	acked := map[int64]byte{}
	var failed []error
	send := func(n int) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for range n {
			value := make([]byte, 1000)
			rand.Read(value)
			cl.Produce(ctx, &kgo.Record{Topic: "relay.events", Value: value}, func(r *kgo.Record, err error) {
				if err != nil {
					failed = append(failed, err)
					return
				}
				acked[r.Offset] = r.Value[0]
			})
			if err := cl.Flush(ctx); err != nil {
				failed = append(failed, err)
			}
		}
	}
	send(20)
	before := len(acked)
	if err := limitFiles(60_000); err != nil {
		return nil, err
	}
	send(100)
	during := len(acked) - before
	refused := len(failed)
	if err := limitFiles(math.MaxUint64); err != nil {
		return nil, err
	}
	send(50)
	fmt.Printf("%d acknowledged before, %d while the file filled up, %d refused (%v), %d after\n",
		before, during, refused, errors.Join(failed[:min(1, refused)]...), len(acked)-before-during)
	switch {
	case before != 20:
		return nil, fmt.Errorf("%d of 20 were acknowledged at first: %v", before, failed)
	case refused == 0:
		return nil, errors.New("no record was refused")
	case len(acked)-before-during != 50:
		return nil, fmt.Errorf("the producer did not recover: %v", failed[refused:])
	}
	return acked, nil
}

func checkFilled(cfg Config, acked map[int64]byte) error {
	s, err := New(cfg, Deps{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()), kgo.ConsumeTopics("relay.events"))
	if err != nil {
		return err
	}
	defer cl.Close()
	for n := 0; n < len(acked); {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("read %d of %d records: %w", n, len(acked), err)
		}
		for _, r := range fetches.Records() {
			first, ok := acked[r.Offset]
			if !ok || first != r.Value[0] {
				return fmt.Errorf("offset %d holds another record than the acknowledged one (acknowledged: %t)", r.Offset, ok)
			}
			n++
		}
	}
	cancel()
	return <-ended
}

func limitFiles(bytes uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	limit.Cur = min(bytes, limit.Max)
	return os.NewSyscallError("setrlimit", syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
}
