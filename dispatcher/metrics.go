package dispatcher

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
)

// metrics are the counters and histograms of the dispatcher. No label has a value per event or endpoint; destinations
// bounds how many destinations have series.
type metrics struct {
	attempts             *prometheus.CounterVec // by result: ok or an error code
	outcomes             *prometheus.CounterVec // by status and reason
	attemptDuration      prometheus.Histogram
	retryLateness        prometheus.Histogram
	connectionWait       prometheus.Histogram
	deadLetters          prometheus.Counter
	produceErrors        prometheus.Counter
	rejectedRecords      *prometheus.CounterVec // by topic
	commitErrors         prometheus.Counter
	commitsWithoutGaps   prometheus.Counter
	gaps                 prometheus.Gauge
	omittedRecords       prometheus.Gauge
	destinationsDisabled prometheus.Counter
	filterEvaluations    prometheus.Counter
	destinations         *destinations
}

// attemptOK is the result of an attempt that succeeded, instead of an error code.
const attemptOK = "ok"

func newMetrics(reg prometheus.Registerer, now func() time.Time) (*metrics, error) {
	var errs []error
	register := func(c prometheus.Collector) { errs = append(errs, reg.Register(c)) }
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_dispatch_" + name, Help: help}, labels)
		register(c)
		return c
	}
	counter := func(name, help string) prometheus.Counter { return counters(name, help).WithLabelValues() }
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "relay_dispatch_" + name, Help: help})
		register(g)
		return g
	}
	histogram := func(name, help string, start float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relay_dispatch_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(start, 4, 9)})
		register(h)
		return h
	}
	m := &metrics{
		attempts:        counters("attempts_total", "Requests to destinations, by result.", "result"),
		outcomes:        counters("outcomes_total", "Outcomes recorded, by status and reason.", "status", "reason"),
		attemptDuration: histogram("attempt_duration_seconds", "Duration of requests to destinations.", 0.001),
		retryLateness:   histogram("retry_lateness_seconds", "How long after its due time a retry was sent.", 0.01),
		connectionWait: histogram("connection_wait_seconds",
			"How long requests waited for an open file or an HTTP/2 stream, not counted in their time-out.", 0.001),
		deadLetters: counter("dead_letters_total",
			"Records written to the dead letter topic: they cannot be decoded, or brokers rejected their follow-up."),
		produceErrors: counter("produce_errors_total", "Failed attempts to produce a record; each is retried."),
		rejectedRecords: counters("rejected_records_total",
			"Records that brokers rejected permanently and that were replaced, by topic.", "topic"),
		commitErrors: counter("commit_errors_total", "Failed commits of offsets."),
		commitsWithoutGaps: counter("commits_without_gaps_total",
			"Partitions committed without metadata because brokers rejected it as too large."),
		gaps: gauge("commit_gaps", "Gaps above the committed offsets in the metadata of the last commit."),
		omittedRecords: gauge("commit_omitted_records",
			"Completed records that did not fit into the metadata of the last commit; a crash now would repeat them."),
		destinationsDisabled: counter(
			"destinations_disabled_total", "Destinations disabled because they answered 410 (Gone) or asked for it."),
		filterEvaluations: counter(
			"filter_evaluations_total", "Event bodies read to evaluate destination filters."),
	}
	m.attempts.WithLabelValues(attemptOK) // from the start: a share of failures needs both
	m.destinations = newDestinations(now)
	register(m.destinations)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register dispatcher metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) attempt(destination string, attempt *event.Attempt) {
	result := attemptOK
	if !attempt.OK {
		result = string(attempt.ErrorCode)
	}
	m.attempts.WithLabelValues(result).Inc()
	m.attemptDuration.Observe(attempt.Duration.Seconds())
	m.destinations.observe(destination, attempt.OK, attempt.Duration)
}

func (m *metrics) outcome(outcome *event.Outcome) {
	m.outcomes.WithLabelValues(string(outcome.Status), string(outcome.Reason)).Inc()
}
