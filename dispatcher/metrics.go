package dispatcher

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
)

// metrics are the figures of the dispatcher. No label has a value per event, endpoint or destination.
type metrics struct {
	attempts      *prometheus.CounterVec // by result: ok or an error code
	outcomes      *prometheus.CounterVec // by status and reason
	seconds       prometheus.Histogram
	late          prometheus.Histogram
	waited        prometheus.Histogram
	dead          prometheus.Counter
	produceErrors prometheus.Counter
	refused       *prometheus.CounterVec // by topic
	commitErrors  prometheus.Counter
	withoutHoles  prometheus.Counter
	holes         prometheus.Gauge
	leftOut       prometheus.Gauge
	retired       prometheus.Counter
	filters       prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_dispatch_attempts_total", Help: "Requests to destinations by result."}, []string{"result"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_dispatch_outcomes_total", Help: "Outcomes by status and reason."}, []string{"status", "reason"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relay_dispatch_attempt_seconds", Help: "Duration of requests to destinations.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relay_dispatch_late_seconds", Help: "How long after its due time a retry was sent.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 9)}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "relay_dispatch_connection_wait_seconds",
			Help:    "How long requests waited for an open file or an HTTP/2 stream, outside their time-out.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}),
		dead: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_dispatch_dead_total", Help: "Records put into the topic dead: they could not be decoded, or Kafka refused what continues them."}),
		produceErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_dispatch_produce_errors_total", Help: "Records that Kafka did not take and that are tried again."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_dispatch_refused_total", Help: "Records that Kafka will never take and that were replaced, by topic."}, []string{"topic"}),
		commitErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_dispatch_commit_errors_total", Help: "Commits that failed."}),
		withoutHoles: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_dispatch_commits_without_holes_total", Help: "Partitions committed without their metadata, which the brokers found too large."}),
		holes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_dispatch_commit_holes", Help: "Gaps beyond the committed offsets that the last commit named."}),
		leftOut: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_dispatch_commit_left_out", Help: "Completed records that did not fit into the metadata of the last commit: a crash would repeat them."}),
	}
	m.retired = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "relay_dispatch_gone_total", Help: "Destinations that were disabled because they answered 410."})
	m.filters = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "relay_dispatch_filter_evaluations_total", Help: "Bodies that were read to evaluate filters of destinations."})
	for _, c := range []prometheus.Collector{
		m.attempts, m.outcomes, m.seconds, m.late, m.waited, m.dead, m.produceErrors, m.refused, m.commitErrors,
		m.withoutHoles, m.holes, m.leftOut, m.retired, m.filters,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register dispatcher metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) attempt(a *event.Attempt) {
	result := "ok"
	if !a.OK {
		result = string(a.ErrorCode)
	}
	m.attempts.WithLabelValues(result).Inc()
	m.seconds.Observe(a.Duration.Seconds())
}

func (m *metrics) outcome(o *event.Outcome) {
	m.outcomes.WithLabelValues(string(o.Status), string(o.Reason)).Inc()
}
