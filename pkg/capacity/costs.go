package capacity

import (
	"strconv"
	"strings"
)

// Kinds of processes. The nodes are named by their roles.
const (
	Kafka      = "kafka"
	ClickHouse = "clickhouse"
	Redis      = "redis"
	Accept     = "ingest,api"
	Dispatch   = "dispatch"
	Write      = "write"
)

// Nodes are the kinds of nodes in the order of an event.
var Nodes = []string{Accept, Dispatch, Write}

const allRoles = "ingest,dispatch,write,api"

// cost is the CPU of one kind of process.
type cost struct {
	running float64 // cores, as soon as a few events come each second: what gathers is paid once
	// Microseconds of an event, of a request to a destination and of a retry, and what each takes more for each KB of
	// the body. Those of Kafka are of all brokers together, with three replicas; those of ClickHouse are without most
	// merges.
	event, eventKB, request, requestKB, retry float64
}

// costs are fitted to the runs in tools/bench/capacity.md, in CPU time of two shared cores (AMD EPYC, virtual). A test
// compares them with these runs and with others.
var costs = map[string]cost{
	Accept:     {running: 0.0155, event: 66, eventKB: 2.5},
	Dispatch:   {running: 0.0225, request: 76, requestKB: 4.5, retry: 96},
	Write:      {running: 0.017, event: 12.5, eventKB: 1.2, request: 11.5, retry: 28},
	Kafka:      {running: 0.16, event: 400, eventKB: 16, request: 50, retry: 480},
	ClickHouse: {running: 0.033, event: 46, eventKB: 9.6, request: 55, retry: 155},
	Redis:      {running: 0.002, request: 0.1},
}

// merging is the CPU of ClickHouse for merging the rows of an event once more, in microseconds: 8 to 101 were measured.
const merging = 80

// Bytes, from the same runs.
const (
	logEvent       = 470 // record of an event, without its body: envelope and headers
	logDestination = 32  // more for each destination
	logOutcome     = 920 // record of an attempt
	logRetry       = 650 // record in a retry topic, without the event's body, which is in it too

	storeEvent      = 82    // an event in all tables, without its body and its deliveries
	storeDelivery   = 22    // a delivery
	storeAttempt    = 97    // an attempt
	bodyCompression = 0.225 // a body on disk: JSON of orders, invoices and commits

	claimBytes = 240 // a key of deduplication in Redis
)

// What is not measured but chosen.
const (
	load             = 0.6 // of a machine's cores at the peak
	full             = 0.7 // of a disk
	replicas         = 3
	minBrokers       = 3
	minNodes         = 3
	minDiskGB        = 20
	keepMinutes      = 15     // default of RELAY_LOG_KEEP_MINUTES
	keptOutcomes     = 10_000 // records that the topic outcomes keeps of each partition
	newPartitions    = 32     // default of RELAY_PARTITIONS
	maxPartitions    = 4096
	claimSeconds     = 86400
	cachedSeconds    = 60 // of the log that a broker should hold in memory, so that consumers do not read its disk
	brokerGB         = 4
	nodeGB           = 2
	clickhouseGB     = 8
	clickhouseCoreGB = 4
	shardBytes       = 4e12

	partitionsPerNode    = 8
	requestsPerPartition = 1000
)

// number formats a figure with three digits.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(text, "e") {
		text = strconv.FormatFloat(v, 'f', 0, 64)
	}
	return text
}
