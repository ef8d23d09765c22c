package main

// boards are the dashboards.
func boards() []board {
	return []board{overview(), delivery(), lanesBoard(), store(), logBoard()}
}

func overview() board {
	return board{
		name: "overview", title: "EventRelay / Overview", about: "Is everything well? Begin here when an alert fires.",
		rows: []row{
			{"Now", []panel{
				{number, "Nodes that are up", "", count, []query{{`count(up{job="relay",$i} == 1)`, ""}}},
				{number, "Failed readiness checks", "Names in /readyz.", count,
					[]query{{`sum(relay_readiness_check_failed{required="true",$i})`, ""}}},
				{number, "Accepted", "", perSecond, []query{{`sum(rate(relay_ingest_accepted_total{$i}[$__rate_interval]))`, ""}}},
				{number, "Refused (503)", "", perSecond,
					[]query{{`sum(rate(relay_ingest_refused_total{$i}[$__rate_interval]))`, ""}}},
				{number, "Backlog", "Age of the event that the dispatcher reads next.", seconds,
					[]query{{`max(relay_dispatch_backlog_age_seconds{$i})`, ""}}},
				{number, "Lost deliveries", "Of the ledger; must be 0.", count, []query{{`sum(relay_ledger_lost{$i})`, ""}}},
			}},
			{"Events", []panel{
				{lines, "Accepted events by source", "", perSecond,
					[]query{{`sum by (source) (rate(relay_ingest_accepted_total{$i}[$__rate_interval]))`, "{{source}}"}}},
				{lines, "Refused, limited and rejected", "Refused are answered 503, limited 429; rejected have a wrong signature.",
					perSecond, []query{
						{`sum by (cause) (rate(relay_ingest_refused_total{$i}[$__rate_interval]))`, "refused: {{cause}}"},
						{`sum by (limit) (rate(relay_ingest_limited_total{$i}[$__rate_interval]))`, "limited: {{limit}}"},
						{`sum by (reason) (rate(relay_ingest_rejected_total{$i}[$__rate_interval]))`, "rejected: {{reason}}"},
					}},
			}},
			{"API and process", []panel{
				{lines, "API requests by status", "", perSecond,
					[]query{{`sum by (status) (rate(relay_api_requests_total{$i}[$__rate_interval]))`, "{{status}}"}}},
				{lines, "API latency, 99th percentile by route", "", seconds,
					[]query{{`topk(10, histogram_quantile(0.99, ` +
						`sum by (le, route) (rate(relay_api_request_seconds_bucket{$i}[$__rate_interval]))))`, "{{route}}"}}},
				{lines, "CPU", "Cores that each node uses.", count,
					[]query{{`rate(process_cpu_seconds_total{job="relay",$i}[$__rate_interval])`, "{{instance}}"}}},
				{lines, "Memory", "", bytes, []query{{`process_resident_memory_bytes{job="relay",$i}`, "{{instance}}"}}},
			}},
		},
	}
}

func delivery() board {
	const attempts = `relay_dispatch_destination_attempt_duration_seconds`
	return board{
		name: "delivery", title: "EventRelay / Delivery", about: "Do destinations get their events, and how fast?",
		rows: []row{
			{"Requests", []panel{
				{lines, "Requests to destinations by result", "Anything but ok is an error code of the attempt.", perSecond,
					[]query{{`sum by (result) (rate(relay_dispatch_attempts_total{$i}[$__rate_interval]))`, "{{result}}"}}},
				{lines, "Share of failed requests", "", ratio, []query{
					{`sum(rate(relay_dispatch_attempts_total{result!="ok",$i}[$__rate_interval])) / ` +
						`sum(rate(relay_dispatch_attempts_total{$i}[$__rate_interval]))`, "failed"}}},
				{lines, "Duration of requests", "", seconds, []query{
					{quantile("0.5", "relay_dispatch_attempt_duration_seconds"), "p50"},
					{quantile("0.99", "relay_dispatch_attempt_duration_seconds"), "p99"}}},
			}},
			{"Destinations", []panel{
				{top, "Busiest", "Requests a second.", perSecond,
					[]query{{`topk(10, sum by (destination) (rate(` + attempts + `_count{$i}[5m])))`, "{{destination}}"}}},
				{top, "Most failures", "Failed requests a second.", perSecond,
					[]query{{`topk(10, sum by (destination) (rate(relay_dispatch_destination_failures_total{$i}[5m])))`,
						"{{destination}}"}}},
				{top, "Slowest", "Mean duration of a request.", seconds,
					[]query{{`topk(10, sum by (destination) (rate(` + attempts + `_sum{$i}[5m])) / ` +
						`(sum by (destination) (rate(` + attempts + `_count{$i}[5m])) > 0))`, "{{destination}}"}}},
			}},
			{"Outcomes", []panel{
				{lines, "Outcomes by status", "", perSecond,
					[]query{{`sum by (status) (rate(relay_dispatch_outcomes_total{$i}[$__rate_interval]))`, "{{status}}"}}},
				{lines, "Lateness of retries, 99th percentile", "", seconds,
					[]query{{quantile("0.99", "relay_dispatch_retry_lateness_seconds"), "p99"}}},
				{lines, "Dead letters", "Must stay 0.", count,
					[]query{{`increase(relay_dispatch_dead_letters_total{$i}[$__rate_interval])`, "{{instance}}"}}},
			}},
		},
	}
}

func lanesBoard() board {
	return board{
		name: "lanes", title: "EventRelay / Lanes", about: "What waits for which destinations, and how near the limits are.",
		rows: []row{
			{"Limits of the node", []panel{
				{lines, "Deliveries in memory, share of the limit", "", ratio, []query{
					{`relay_dispatch_in_flight{$i} / relay_dispatch_in_flight_max{$i}`, "deliveries {{instance}}"},
					{`relay_dispatch_in_flight_bytes{$i} / relay_dispatch_in_flight_bytes_max{$i}`, "bytes {{instance}}"}}},
				{lines, "Running requests, share of the limit", "", ratio,
					[]query{{`relay_dispatch_sending{$i} / relay_dispatch_sending_max{$i}`, "{{instance}}"}}},
				{lines, "Waiting for a connection", "Seconds that requests wait in each second, all together.", seconds,
					[]query{{`rate(relay_dispatch_connection_wait_seconds_sum{$i}[$__rate_interval])`, "{{instance}}"}}},
			}},
			{"Lanes", []panel{
				{lines, "Destinations by state", "", count,
					[]query{{`sum by (state) (relay_dispatch_lanes{$i})`, "{{state}}"}}},
				{lines, "Parked deliveries by reason", "", count,
					[]query{{`sum by (reason) (relay_dispatch_parked{$i})`, "{{reason}}"}}},
				{lines, "Records in retry topics", "", count,
					[]query{{`sum by (tier) (relay_dispatch_tier_records{$i})`, "{{tier}}"}}},
			}},
			{"Shared limits (Redis)", []panel{
				{lines, "Redis is unavailable", "The node limits for itself.", yesNo,
					[]query{{`relay_limit_breaker_open{$i}`, "{{instance}}"}}},
				{lines, "Failed exchanges with Redis", "", perSecond,
					[]query{{`sum by (exchange) (rate(relay_limit_redis_errors_total{$i}[$__rate_interval]))`, "{{exchange}}"}}},
				{lines, "Token leases by result", "", perSecond,
					[]query{{`sum by (result) (rate(relay_limit_leases_total{$i}[$__rate_interval]))`, "{{result}}"}}},
			}},
		},
	}
}

func store() board {
	return board{
		name: "store", title: "EventRelay / Store", about: "Does ClickHouse keep up?",
		rows: []row{
			{"Now", []panel{
				{number, "Shards that do not answer", "", count, []query{{`sum(relay_store_unavailable_shards{$i})`, ""}}},
				{number, "Lag", "Age of the oldest record that is not stored.", seconds,
					[]query{{`max(relay_store_lag_seconds{$i})`, ""}}},
				{number, "Most parts in a partition", "ClickHouse rejects inserts at about 3,000.", count,
					[]query{{`max(relay_store_parts{$i})`, ""}}},
				{number, "Throttled writers", "", count, []query{{`sum(relay_store_throttled{$i})`, ""}}},
			}},
			{"Writing", []panel{
				{lines, "Lag", "", seconds, []query{{`relay_store_lag_seconds{$i}`, "{{instance}}"}}},
				{lines, "Rows by table", "", perSecond,
					[]query{{`sum by (table) (rate(relay_store_rows_total{$i}[$__rate_interval]))`, "{{table}}"}}},
				{lines, "Duration of a flush", "", seconds, []query{
					{quantile("0.5", "relay_store_flush_seconds"), "p50"},
					{quantile("0.99", "relay_store_flush_seconds"), "p99"}}},
			}},
			{"Failures and upkeep", []panel{
				{lines, "Failed inserts and commits", "Each is repeated.", perSecond, []query{
					{`sum(rate(relay_store_insert_failures_total{$i}[$__rate_interval]))`, "inserts"},
					{`sum(rate(relay_store_commit_failures_total{$i}[$__rate_interval]))`, "commits"}}},
				{lines, "Rows in memory", "", count, []query{{`relay_store_buffered_rows{$i}`, "{{instance}}"}}},
				{lines, "Erasures that are not finished", "", count,
					[]query{{`max(relay_store_erasures_unfinished{$i})`, "events"}}},
			}},
		},
	}
}

func logBoard() board {
	return board{
		name: "log", title: "EventRelay / Log",
		about: "Kafka and the configuration log: who is behind, and what is near a limit.",
		rows: []row{
			{"Consumer groups", []panel{
				{lines, "Unread records by group", "Updated every minute.", count,
					[]query{{`max by (group) (relay_log_unread_records{$i})`, "{{group}}"}}},
				{lines, "Backlog of the dispatchers", "", seconds,
					[]query{{`relay_dispatch_backlog_age_seconds{$i}`, "{{instance}}"}}},
				{lines, "Failures towards Kafka", "", perSecond, []query{
					{`sum(rate(relay_dispatch_produce_errors_total{$i}[$__rate_interval]))`, "produce"},
					{`sum(rate(relay_dispatch_commit_errors_total{$i}[$__rate_interval]))`, "commit"},
					{`sum(rate(relay_log_trim_failures_total{$i}[$__rate_interval]))`, "trim"}}},
			}},
			{"Configuration", []panel{
				{lines, "Age of the lease", "Above 5 s a node rejects API keys.", seconds,
					[]query{{`relay_control_lease_age_seconds{$i}`, "{{instance}}"}}},
				{lines, "Nodes that send heartbeats", "", count, []query{{`max(relay_control_nodes{$i})`, "nodes"}}},
				{lines, "Use of the limits", "", ratio, []query{
					{`max(relay_control_state_bytes{$i} / relay_control_state_limit_bytes{$i})`, "bytes"},
					{`max(relay_control_endpoints{$i} / relay_control_endpoints_limit{$i})`, "endpoints"},
					{`max(relay_control_findings{$i} / relay_control_findings_limit{$i})`, "findings"},
					{`max(relay_control_recoveries{$i} / relay_control_recoveries_limit{$i})`, "recovery jobs"}}},
			}},
			{"Clocks and ledger", []panel{
				{lines, "Clock skew to the broker", "", seconds, []query{{`abs(relay_clock_skew_seconds{$i})`, "{{instance}}"}}},
				{lines, "Accepted, in flight and lost", "Of the ledger. Lost must be 0.", count, []query{
					{`sum(relay_ledger_in_flight{$i})`, "in flight"}, {`sum(relay_ledger_lost{$i})`, "lost"}}},
				{lines, "Free share of the data directory's disk", "", ratio,
					[]query{{`relay_data_dir_free_bytes{$i} / relay_data_dir_size_bytes{$i}`, "{{instance}}"}}},
			}},
		},
	}
}

// quantile is a quantile of a histogram over all chosen nodes.
func quantile(q, histogram string) string {
	return "histogram_quantile(" + q + ", sum by (le) (rate(" + histogram + "_bucket{$i}[$__rate_interval])))"
}
