package drain

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/leak"
)

// line is what a line says about itself. All text is untrusted.
type line struct {
	app, environment, release string
	at                        time.Time // its own time; zero if it has none
}

// Names of members with that meaning, as common loggers write them. The first that a line has counts.
var (
	appNames = []string{"app", "app_name", "application", "service", "service.name", "service_name", "program",
		"logger"}
	environmentNames = []string{"environment", "env", "deployment.environment"}
	releaseNames     = []string{"release", "version"}
	timeNames        = []string{"@timestamp", "timestamp", "time", "ts", "datetime"}
)

// maxValue is the length of a value in bytes up to which it is read.
const maxValue = 200

// platformNames has the names of members in the lines of a platform that count before the common ones.
var platformNames = map[string]struct{ app, time []string }{
	leak.PlatformVercel: {app: []string{"projectName", "projectId", "host"}},
	leak.PlatformCloudflare: {
		app:  []string{"ScriptName", "ClientRequestHost"},
		time: []string{"EventTimestampMs", "EdgeStartTimestamp", "EdgeEndTimestamp", "Datetime"},
	},
}

// readLine reads the line, or the element of a JSON array, around a secret: JSON, logfmt (name=value), or a syslog line
// of RFC 5424. before and after are the text on both sides of the secret, of which the secret itself is no part.
func readLine(platform string, before, after []byte, arrival time.Time) line {
	before, after = record(before, after)
	if platform == leak.PlatformHeroku {
		before = before[frameStart(before):]
	}
	var l line
	own := platformNames[platform]
	for _, text := range [][]byte{before, after} {
		find := func(have string, names []string) string {
			for _, name := range names {
				if have == "" {
					have = value(text, name)
				}
			}
			return have
		}
		l.app = find(find(l.app, own.app), appNames)
		l.environment = find(l.environment, environmentNames)
		l.release = find(l.release, releaseNames)
		if l.at.IsZero() {
			l.at = parseTime(find(find("", own.time), timeNames), arrival)
		}
	}
	first, rest, _ := bytes.Cut(before, []byte{' '})
	if l.at.IsZero() {
		l.at = parseTime(string(first[:min(len(first), maxValue)]), arrival)
	}
	if bytes.HasPrefix(first, []byte{'<'}) && bytes.HasSuffix(first, []byte(">1")) {
		l.readSyslog(platform, rest, arrival)
	}
	return l
}

// readSyslog reads the fields of a line of RFC 5424, 6.2, behind its version: time, host, application, process. An
// application that the text names itself comes first, but not in Heroku's lines.
func (l *line) readSyslog(platform string, text []byte, arrival time.Time) {
	fields := strings.SplitN(string(text[:min(len(text), 2*maxValue)]), " ", 5)
	if len(fields) < 4 {
		return
	}
	l.at = parseTime(fields[0][:min(len(fields[0]), maxValue)], arrival)
	app := fields[2]
	switch {
	case platform == leak.PlatformHeroku:
		process := fields[3]
		if strings.HasPrefix(process, "d.") { // an older form without a host: the drain's token follows the process
			app, process = fields[1], fields[2]
		}
		if l.app = app; process != "-" {
			kind, _, _ := strings.Cut(process, ".") // web.1 and web.2 are the same program
			l.app += "[" + kind + "]"
		}
	case l.app == "" && len(app) <= maxValue && app != "-":
		l.app = app
	}
}

// frameStart returns where the newest message of an octet-counted text begins: "<length> <priority>1 …"; 0 = at the
// start.
func frameStart(text []byte) int {
	for end := len(text); ; {
		version := bytes.LastIndex(text[:end], []byte(">1 "))
		if version < 0 {
			return 0
		}
		priority := bytes.TrimRight(text[:version], "0123456789")
		if length, ok := bytes.CutSuffix(priority, []byte(" <")); ok && len(priority) < version &&
			len(bytes.TrimRight(length, "0123456789")) < len(length) {
			return len(priority) - 1
		}
		end = version
	}
}

// record returns the part of the text that belongs to the same line, or to the same element of an array of objects.
func record(before, after []byte) (b, a []byte) {
	if i := bytes.LastIndexByte(before, '\n'); i >= 0 {
		before = before[i+1:]
	}
	if i := bytes.IndexByte(after, '\n'); i >= 0 {
		after = after[:i]
	}
	for _, border := range []string{"},{", "}, {"} {
		if i := bytes.LastIndex(before, []byte(border)); i >= 0 {
			before = before[i+len(border)-1:]
		}
		if i := bytes.Index(after, []byte(border)); i >= 0 {
			after = after[:i+1]
		}
	}
	return before, after
}

// value returns the value of a member: a string or number in JSON ("name": …) or logfmt (name=…); empty if there is
// none.
func value(text []byte, name string) string { return longValue(text, name, maxValue) }

func longValue(text []byte, name string, most int) string {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(name))
		if i < 0 {
			return ""
		}
		i += from
		from = i + len(name)
		rest := text[from:]
		switch {
		case i > 0 && text[i-1] == '"' && len(rest) > 0 && rest[0] == '"' && (i < 2 || text[i-2] != '\\'):
			colon := bytes.TrimLeft(rest[1:], " \t")
			if v, ok := bytes.CutPrefix(colon, []byte{':'}); ok {
				return jsonValue(bytes.TrimLeft(v, " \t"), most)
			}
		case (i == 0 || text[i-1] == ' ') && len(rest) > 0 && rest[0] == '=':
			return logfmtValue(rest[1:], most)
		}
	}
}

// jsonValue returns the string or number with which the text begins; empty if it is neither, or is cut off.
func jsonValue(text []byte, most int) string {
	text = text[:min(len(text), most)]
	if len(text) > 0 && text[0] == '"' {
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				var s string
				_ = json.Unmarshal(text[:i+1], &s) // a string that is not valid JSON counts as none
				return s
			}
		}
		return ""
	}
	n := len(text) - len(bytes.TrimLeft(text, "0123456789."))
	if n == len(text) {
		return "" // it may go on
	}
	return string(text[:n])
}

// logfmtValue returns the value with which the text begins: up to a space, or in quotes; empty if it is cut off.
func logfmtValue(text []byte, most int) string {
	if len(text) > 0 && text[0] == '"' {
		return jsonValue(text, most)
	}
	text = text[:min(len(text), most)]
	if i := bytes.IndexByte(text, ' '); i >= 0 {
		return string(text[:i])
	}
	return ""
}

// maxAge is how old a line may be for its time to count.
const maxAge = 10 * 365 * 24 * time.Hour

// parseTime reads RFC 3339, or seconds, milli-, micro- or nanoseconds since 1970. It returns zero for anything else,
// and for times that are after the arrival or very old.
func parseTime(text string, arrival time.Time) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	seconds, notNumber := strconv.ParseFloat(text, 64)
	// ParseFloat also accepts Inf, on which the loop would never end.
	if notNumber == nil && seconds > 0 && !math.IsInf(seconds, 1) {
		for seconds > 1e11 {
			seconds /= 1000
		}
		at, err = time.UnixMilli(int64(seconds*1000)), nil
	}
	if err != nil || at.After(arrival) || arrival.Sub(at) > maxAge {
		return time.Time{}
	}
	return at.UTC()
}

// border is between two objects of an array.
var border = []byte("},{")

// lineCounter counts lines and bytes: newlines, the elements of an array of objects, or the frames of Logplex.
type lineCounter struct {
	framed       bool // octet counting (RFC 6587, 3.4.1): the length of a message in bytes, a space, the message
	lines, bytes uint64
	elements     uint64 // borders between the objects of an array
	array        bool
	tail         [2]byte // the last bytes
	frames       frames
}

func (c *lineCounter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.framed {
		c.frames.add(p)
	}
	if c.bytes == 0 {
		c.array = p[0] == '['
	}
	var around [4]byte // the bytes on both sides of the cut between two writes
	copy(around[:], c.tail[:])
	n := 2 + copy(around[2:], p)
	if c.array {
		c.elements += uint64(bytes.Count(p, border) + bytes.Count(around[:n], border))
	}
	c.lines += uint64(bytes.Count(p, []byte{'\n'}))
	c.bytes += uint64(len(p))
	copy(c.tail[:], around[n-2:n])
	if len(p) > 2 {
		copy(c.tail[:], p[len(p)-2:])
	}
	return len(p), nil
}

// count returns the number of lines; the last one need not end with a newline.
func (c *lineCounter) count() uint64 {
	switch {
	case c.framed && c.frames.complete():
		return c.frames.n
	case c.bytes > 0 && c.tail[1] != '\n':
		return c.lines + c.elements + 1
	default:
		return c.lines + c.elements
	}
}

// frames counts the messages of an octet-counted text.
type frames struct {
	n       uint64
	length  int // of the next message, as far as it is read
	digits  int
	left    int // bytes of the message that are missing
	invalid bool
}

// maxFrameDigits bounds the length of a message: a body has at most 64 MiB.
const maxFrameDigits = 8

func (f *frames) add(p []byte) {
	for len(p) > 0 && !f.invalid {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		switch {
		case c >= '0' && c <= '9' && f.digits < maxFrameDigits:
			f.length, f.digits = f.length*10+int(c-'0'), f.digits+1
		case c == ' ' && f.length > 0:
			f.n++
			f.left, f.length, f.digits = f.length, 0, 0
		case c == '\n' && f.digits == 0: // between two messages, as some senders write it
		default:
			f.invalid = true
		}
	}
}

// complete reports whether the text consisted of messages.
func (f *frames) complete() bool { return !f.invalid && f.left == 0 && f.digits == 0 }
