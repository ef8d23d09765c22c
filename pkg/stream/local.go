package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/segment"
)

// Log is the log in this process: records are in files (pkg/segment), and no protocol is spoken. Producers, groups and
// readers use it if Config.Embedded is set. It means what Kafka means; the differences are those of one process:
//
//   - A group has one owner of all partitions at a time. Further members wait until it is closed. Nothing takes
//     partitions away from a member that does not poll.
//   - A record is written by who produces it, so that readers see it at once.
type Log struct {
	segments *segment.Log
	log      *slog.Logger
	now      func() time.Time

	mu     sync.Mutex // guards groups
	groups map[string][]*localGroup
}

// LogConfig describes a log in this process.
type LogConfig struct {
	Dir string
	// Fsync delays acknowledgements on durable topics, and commits, until they are on disk. Without it acknowledged
	// records survive the death of the process but not a power cut.
	Fsync bool
	// SkipMissing opens a log that has lost records; see segment.Config.
	SkipMissing bool
	Log         *slog.Logger          // nil: nothing is logged
	Metrics     prometheus.Registerer // nil: no metrics
	// A test may set these; zero values are those of a node.
	Now                                 func() time.Time
	Disk                                segment.Disk
	SegmentBytes, TailBytes, StateBytes int64
}

// LogStateFile is the file of a log that names its topics.
const LogStateFile = segment.StateFile

// Errors of OpenLog and Log.Run.
var (
	// ErrRecordsMissing means that a log has lost records, and opens with LogConfig.SkipMissing only.
	ErrRecordsMissing = segment.ErrMissing
	// ErrLogFailed means that a sync has failed.
	ErrLogFailed = segment.ErrFailed
)

// CheckLog returns the error of OpenLog, with all that is damaged, or else what earlier starts skipped; see
// segment.Check.
func CheckLog(cfg LogConfig) ([]segment.Missing, error) { return segment.Check(cfg.segments()) }

func (cfg LogConfig) segments() segment.Config {
	return segment.Config{
		Dir: cfg.Dir, Fsync: cfg.Fsync, Disk: cfg.Disk, SegmentBytes: cfg.SegmentBytes, TailBytes: cfg.TailBytes,
		StateBytes: cfg.StateBytes, SkipMissing: cfg.SkipMissing, Durable: DurableTopic, Log: cfg.Log,
		// Records of the configuration depend on those before them.
		MustBeWhole: func(topic string) bool {
			t, _ := topicByFullName(topic)
			return t.Authenticated
		},
		CommitEnd: func(c segment.Commit) int64 {
			gaps, _ := Commit{Offset: c.Offset, Metadata: c.Metadata}.Gaps()
			if n := len(gaps); n > 0 {
				return gaps[n-1].To
			}
			return c.Offset
		}}
}

// OpenLog opens the log in a directory, or creates it. Nobody else can open it until Run has returned.
func OpenLog(cfg LogConfig) (*Log, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = crash.Clock()
	}
	c := cfg.segments()
	if cfg.Metrics != nil {
		c.Synced = syncMetrics(cfg.Metrics)
	}
	segments, err := segment.Open(c)
	if err != nil {
		return nil, err
	}
	return &Log{segments: segments, log: cfg.Log, now: cfg.Now, groups: make(map[string][]*localGroup)}, nil
}

// syncMetrics registers the metrics of syncs, and returns the function that counts a round.
func syncMetrics(reg prometheus.Registerer) func(durable bool, files int, took time.Duration) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "relay_embedded_log_sync_seconds",
		Help:    "Duration of one round of syncs of the embedded log, by kind of topics: durable or other.",
		Buckets: prometheus.ExponentialBuckets(100e-6, 2, 16), // 0.1 ms to 3.3 s
	}, []string{"topics"})
	synced := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relay_embedded_log_synced_files_total",
		Help: "Files that the embedded log synced to disk, by kind of topics: durable or other.",
	}, []string{"topics"})
	reg.MustRegister(seconds, synced)
	return func(durable bool, files int, took time.Duration) {
		topics := "other"
		if durable {
			topics = "durable"
		}
		seconds.WithLabelValues(topics).Observe(took.Seconds())
		synced.WithLabelValues(topics).Add(float64(files))
	}
}

// Missing returns which records were lost and are not trimmed yet.
func (l *Log) Missing() []segment.Missing { return l.segments.Missing() }

// Snapshot begins a copy of the log; close it.
func (l *Log) Snapshot() *segment.Snapshot { return l.segments.Snapshot() }

// retentionInterval is how often topics without readers are trimmed by their retention.
const retentionInterval = time.Minute

// Run works until ctx ends, and closes the log. It returns an error if the log cannot be synced to disk. Nothing may be
// produced after it.
func (l *Log) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var retention sync.WaitGroup
	retention.Go(func() {
		tick := time.NewTicker(retentionInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := l.expire(l.now()); err != nil {
					l.log.LogAttrs(ctx, slog.LevelWarn, "cannot trim the log by retention", slog.Any("error", err))
				}
			}
		}
	})
	err := l.segments.Run(ctx)
	cancel()
	retention.Wait()
	return errors.Join(err, l.segments.Close())
}

// expire deletes the records that are older than the retention of their topic.
func (l *Log) expire(now time.Time) error {
	before := make(map[segment.Key]int64)
	for name := range l.segments.Topics() {
		t, _ := topicByFullName(name)
		for _, p := range l.partitions(name) {
			if t.Retention == 0 {
				continue
			}
			at, err := p.OffsetForTime(now.Add(-t.Retention).UnixMilli())
			if err != nil {
				return err
			}
			if at > p.Start() {
				before[p.Key()] = at
			}
		}
	}
	if len(before) == 0 {
		return nil
	}
	return l.segments.Trim(before)
}

// NewAppender implements Engine.
func (l *Log) NewAppender(c Config) Appender { return newLocalProducer(c) }

// NewMember implements Engine.
func (l *Log) NewMember(c Config, g GroupConfig) Member { return newLocalGroup(c, g) }

// NewLogReader implements Engine.
func (l *Log) NewLogReader(c Config) LogReader { return localReader{c} }

// partitions returns the partitions of a topic, which is named with the prefix.
func (l *Log) partitions(topic string) (all []*segment.Partition) {
	t, _ := l.segments.Topic(topic)
	for i := range t.Partitions {
		all = append(all, l.segments.Partition(topic, i))
	}
	return all
}

// A record in a segment: key, value, number of headers, and the key and value of each. Keys and values have their
// length before them, as an unsigned varint that is one higher: 0 is nil.

func appendRecord(dst []byte, r *Record) []byte {
	dst = appendBytes(appendBytes(dst, r.Key), r.Value)
	dst = binary.AppendUvarint(dst, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendUvarint(dst, uint64(len(h.Key)))
		dst = appendBytes(append(dst, h.Key...), h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

// errNoRecord means that a segment has something else than a record.
var errNoRecord = errors.New("the log has bytes that are no record")

// decoder makes records of what segments contain.
type decoder struct {
	names map[string]string // of headers: each exists once in memory
}

// maxNames bounds the names that a decoder remembers.
const maxNames = 100

func (d *decoder) name(b []byte) string {
	if name, ok := d.names[string(b)]; ok {
		return name
	}
	if d.names == nil {
		d.names = make(map[string]string)
	}
	name := string(b)
	if len(d.names) < maxNames {
		d.names[name] = name
	}
	return name
}

// records returns the records of a partition. Their keys and values are parts of the frames.
func (d *decoder) records(p segment.Key, frames []segment.Frame) ([]*Record, error) {
	all, pointers := make([]Record, len(frames)), make([]*Record, len(frames))
	for i, f := range frames {
		all[i] = Record{Topic: p.Topic, Partition: p.Index, Offset: f.Offset, Timestamp: time.UnixMilli(f.Time)}
		if !d.decode(f.Payload, &all[i]) {
			return nil, fmt.Errorf("%w: %s[%d] at offset %d", errNoRecord, p.Topic, p.Index, f.Offset)
		}
		pointers[i] = &all[i]
	}
	return pointers, nil
}

func (d *decoder) decode(b []byte, r *Record) (ok bool) {
	ok = true
	number := func() int {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)) {
			ok, b = false, nil
			return 0
		}
		b = b[size:]
		return int(n)
	}
	next := func(n int) (part []byte) {
		if n > len(b) {
			ok, b = false, nil
			return nil
		}
		part, b = b[:n:n], b[n:]
		return part
	}
	bytes := func() []byte {
		if n := number(); n > 0 {
			return next(n - 1)
		}
		return nil
	}
	r.Key, r.Value = bytes(), bytes()
	if n := number(); n > 0 {
		r.Headers = make([]Header, n)
	}
	for i := range r.Headers {
		r.Headers[i].Key = d.name(next(number()))
		r.Headers[i].Value = bytes()
	}
	return ok
}
