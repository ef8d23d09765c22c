package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/segment"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kafka"
	"github.com/eventrelay/relay/test/must"
)

// logContents is all that a conversion has to keep.
type logContents struct {
	ID      string // of the configuration log
	Starts  map[stream.Partition]int64
	Records map[stream.Partition][]string
	Commits map[string]map[stream.Partition]stream.Commit
}

func contentsOf(t *testing.T, c stream.Config) (all logContents) {
	t.Helper()
	r := must.Get(stream.NewReader(c, "test"))(t)
	defer r.Close()
	var topics []string
	for _, topic := range stream.Topics() {
		topics = append(topics, topic.Name)
	}
	var err error
	_, all.ID, err = r.TopicID(t.Context(), stream.Control)
	must.Do(t, err)
	all.Starts = must.Get(r.Starts(t.Context(), topics...))(t)
	all.Records = make(map[stream.Partition][]string)
	for p, end := range must.Get(r.Ends(t.Context(), topics...))(t) {
		must.Do(t, r.ReadRanges(t.Context(), []stream.Range{{Partition: p, From: all.Starts[p], To: end}},
			func(p stream.Partition, records []*stream.Record) error {
				for _, record := range records {
					all.Records[p] = append(all.Records[p], fmt.Sprintf("%d %d %s %x %s", record.Offset,
						record.Timestamp.UnixMilli(), record.Key, sha256.Sum256(record.Value), record.Headers))
				}
				return nil
			}))
	}
	all.Commits = make(map[string]map[stream.Partition]stream.Commit)
	for _, group := range stream.Groups() {
		all.Commits[group] = must.Get(r.Commits(t.Context(), group, topics...))(t)
	}
	return all
}

// runs runs a component until the returned function is called.
func runs(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { must.Do(t, run(ctx)) })
	return sync.OnceFunc(func() { cancel(); running.Wait() })
}

// The log of a version with an embedded Kafka is converted at the first start, all of it, however often that is
// interrupted.
func TestConvertLog(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	s := settings{Config: nodeconfig.Config{DataDir: dir, TopicPrefix: "relay.", Fsync: true}}
	old := filepath.Join(dir, nodeconfig.KafkaDir)
	want := keptByKafka(t, old)

	convert := func(ctx context.Context) error { return convertLog(ctx, s, quiet) }
	for wait := time.Millisecond; ; wait *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		err := convert(ctx)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) || exists(filepath.Join(dir, nodeconfig.LogDir)) || !exists(old) {
			t.Fatalf("after %v: %v", wait, err)
		}
	}
	if exists(old) || exists(filepath.Join(dir, newLogDir)) {
		t.Error("something else than the converted log is left")
	}
	converted := must.Get(stream.OpenLog(stream.LogConfig{Dir: filepath.Join(dir, nodeconfig.LogDir), Fsync: true}))(t)
	stop := runs(t, converted.Run)
	got := contentsOf(t, stream.Config{Embedded: converted, Prefix: "relay."})
	is.Same(t, got, want, cmpopts.EquateEmpty())

	stop()
	for _, interrupted := range []func(){
		func() { must.Do(t, os.Mkdir(filepath.Join(dir, oldKafka), 0o700)) },
		func() {
			must.Do(t, os.Mkdir(filepath.Join(dir, oldKafka), 0o700))
			must.Do(t, os.Rename(filepath.Join(dir, nodeconfig.LogDir), filepath.Join(dir, newLogDir)))
		},
	} {
		interrupted()
		if err := convert(t.Context()); err != nil || exists(filepath.Join(dir, oldKafka)) ||
			!exists(filepath.Join(dir, nodeconfig.LogDir, "state.log")) {
			t.Errorf("interrupted after the copy was whole: %v", err)
		}
	}
	must.Do(t, os.Mkdir(old, 0o700)) // an older version ran on the directory, even before the old log was removed
	must.Do(t, os.Mkdir(filepath.Join(dir, oldKafka), 0o700))
	if err := convert(t.Context()); err == nil || !strings.Contains(err.Error(), "two logs") || !exists(old) {
		t.Errorf("with two logs: %v", err)
	}
}

// keptByKafka makes a log in the data directory of an embedded Kafka, and returns what is in it. The last write to each
// file was interrupted.
func keptByKafka(t *testing.T, dir string) logContents {
	t.Helper()
	cfg := kafka.DefaultConfig()
	cfg.DataDir, cfg.Fsync = dir, false
	broker := must.Get(kafka.New(cfg, kafka.Deps{}))(t)
	stop := runs(t, broker.Run)
	<-broker.Ready()
	c := stream.Config{Brokers: []string{broker.Addr()}, Prefix: "relay."}
	fillLog(t, c)
	contents := contentsOf(t, c)
	stop()
	files := must.Get(filepath.Glob(filepath.Join(dir, "partitions", "*", "*.dat")))(t)
	for _, name := range append(files, filepath.Join(dir, "groups.log")) {
		f := must.Get(os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0))(t)
		must.Get(f.Write(bytes.Repeat([]byte{0, 1}, 20)))(t)
		must.Do(t, f.Close())
	}
	return contents
}

// fillLog makes a log with trimmed, committed and open records.
func fillLog(t *testing.T, c stream.Config) {
	t.Helper()
	must.Get(stream.Migrate(t.Context(), c, 3, 1))(t)
	p := must.Get(stream.NewProducer(c, "test"))(t)
	defer p.Close()
	produced := func(_ *stream.Record, err error) { must.Do(t, err) }
	for i := range 3000 {
		topic := []string{stream.Events, stream.Outcomes, stream.Dead, "retry.1s"}[i%4]
		p.Produce(topic, int32(i%3), &stream.Record{Key: fmt.Append(nil, i), Value: make([]byte, i%2000),
			Headers: []stream.Header{{Key: "n", Value: fmt.Append(nil, i)}}}, produced)
	}
	p.Produce(stream.Control, 0, &stream.Record{Value: []byte("x")}, produced)
	must.Do(t, p.Flush(t.Context()))
	for _, group := range []string{stream.DispatchGroup, stream.StoreGroup} {
		g := must.Get(stream.NewGroup(c, stream.GroupConfig{Name: group, Topics: stream.ReadBy(group)}))(t)
		must.Do(t, g.Poll(t.Context(), func(stream.Partition, []*stream.Record) {}))
		commits := make(map[stream.Partition]stream.Commit)
		for i := range int32(3) {
			metadata, _ := stream.EncodeGaps(100, []stream.Gap{{From: 150, To: 160 + int64(i)}})
			commits[stream.Partition{Topic: stream.Events, Index: i}] = stream.Commit{Offset: 100, LeaderEpoch: -1,
				Metadata: metadata}
		}
		must.Do(t, g.Commit(t.Context(), commits))
		g.Close()
	}
	r := must.Get(stream.NewReader(c, "test"))(t)
	defer r.Close()
	must.Do(t, r.Trim(t.Context(), stream.Partition{Topic: stream.Events, Index: 1}, 70))
}

// A start refuses a directory that has lost its log or its master key, and no other.
func TestLostParts(t *testing.T) {
	const state, store = nodeconfig.LogDir + "/" + segment.StateFile, storeDir + "/db"
	const keys, logDir, claims = nodeconfig.MasterKeysFile, nodeconfig.LogDir, nodeconfig.ClaimsFile
	for want, dirs := range map[string][][]string{
		"": {{}, {keys}, {storeDir, logDir}, {keys, store, state}, {keys, store, nodeconfig.KafkaDir},
			{keys, claims, oldKafka}, {keys, logDir + "/x"}},
		"its master key": {{state}, {store}, {nodeconfig.KafkaDir}},
		"has no log":     {{keys, store}, {keys, claims, logDir + "/lost+found"}},
	} {
		for _, names := range dirs {
			s := settings{Config: nodeconfig.Config{DataDir: t.TempDir(), Embedded: true}}
			for _, name := range names {
				must.Do(t, os.MkdirAll(filepath.Join(s.DataDir, name), 0o700))
			}
			if err := s.checkNothingIsLost(); want == "" {
				is.OK(t, err, strings.Join(names, ", "))
			} else {
				is.Failed(t, err, want, strings.Join(names, ", "))
			}
			s.MasterKeys, s.AllowEmpty = "main:x", true
			is.OK(t, s.checkNothingIsLost(), "what is wanted")
		}
	}
}
