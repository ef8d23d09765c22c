package schema

import "time"

// LiveHours are the newest hours: reads count their events themselves, for the writer may not have.
const LiveHours = 2 * time.Hour

// HourOf is the beginning of the hour of t.
func HourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// DayOf is the beginning of the day of t.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// HourColumns count events by hour and endpoint.
const HourColumns = "toStartOfHour(toDateTime(ts, 'UTC')) AS hour, endpoint, " +
	"countIf(source = 'provider') AS received, countIf(source != 'provider') AS sent, toUInt64(sum(size)) AS bytes"
