package schema

import "time"

// LiveHours is the span before the current hour whose events reads count themselves, as they do those of the current
// hour: the writer may not have counted them yet.
const LiveHours = 2 * time.Hour

// LiveFindings is the span before the current day whose findings reads count themselves, as they do those of the
// current day.
const LiveFindings = 24 * time.Hour

// HourOf returns the beginning of the hour of t, in UTC.
func HourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// DayOf returns the beginning of the day of t, in UTC.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// HourColumns is the SELECT list that counts events by hour and endpoint.
const HourColumns = "toStartOfHour(toDateTime(ts, 'UTC')) AS hour, endpoint, " +
	"countIf(source = 'provider') AS received, countIf(source != 'provider') AS sent, toUInt64(sum(size)) AS bytes"
