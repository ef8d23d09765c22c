package drain

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/secrets"
)

// Bounds of private keys that have one line in each record of a request.
const (
	maxRecord      = 4 << 10 // bytes of a record that is read; longer ones are left out
	maxKeyText     = 8 << 10 // bytes of a key
	maxOpenKeys    = 8       // that are read at the same time; another ends the oldest
	maxJoinedKeys  = 100     // of a request
	maxRecordsLate = 500     // records of any source between two lines of a key
	maxNesting     = 3       // objects in texts of objects
	minKeyLine     = 48      // characters of a line that is not the last
)

var (
	keyMarker  = []byte("PRIVATE KEY")
	borders    = [][]byte{border, []byte("}, {")}
	keyBegin   = regexp.MustCompile(`-----BEGIN ((?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?)-----`)
	keyBody    = regexp.MustCompile(`[A-Za-z0-9+/]{48}`)
	keyEnd     = []byte("-----END ")
	keyLine    = regexp.MustCompile("([A-Za-z0-9+/]+={0,2})(?:\\\\+[rn])*(?:['\"`]\\s*[+,]?)?\\s*$")
	colour     = regexp.MustCompile(`(?:\x1b|\\+(?:u001[bB]|x1[bB]|033|e)|#033)\[[0-9;]*m`)
	sourceKeys = slices.Concat(appNames, []string{"hostname", "host", "pid", "stream", "container_id", "container_name",
		"pod", "pod_name", "instance"})
)

// joiner finds private keys that have one line in each record, with records of others between them: a record is a frame
// of Logplex, a line, or an element of an array of objects. The stream finds what is in one piece.
type joiner struct {
	of      *request
	scanner *secrets.Scanner
	framed  bool
	text    []byte // what no complete record is in yet
	base    int64  // offset of text[0] in the body
	skip    int    // bytes of a frame that is too long
	open    []*joinedKey
	done    []*joinedKey
	begun   int
}

// joinedKey is a private key of which the first line was read.
type joinedKey struct {
	source        string   // who wrote it
	members       []string // that have the lines: of a record, of the object in that text, and so on
	label         string
	at            int64  // offset of its first line in the body
	before, after []byte // of the record with the first line
	text          []byte
	size          int    // characters of its base64
	short         []byte // the line before, if only the last one is as short
	late          int    // records since the last line
	ended, found  bool
}

func newJoiner(of *request, scanner *secrets.Scanner, framed bool) *joiner {
	return &joiner{of: of, scanner: scanner, framed: framed}
}

func (j *joiner) Write(p []byte) (int, error) {
	n := len(p)
	skipped := min(j.skip, n)
	j.skip -= skipped
	j.base += int64(skipped)
	j.text = append(j.text, p[skipped:]...)
	read := 0
	if j.framed {
		read = j.readFrames()
	}
	if !j.framed {
		read += j.readLines(j.text[read:], j.base+int64(read))
	}
	left := copy(j.text, j.text[read:])
	clear(j.text[left:])
	j.text = j.text[:left]
	j.base += int64(read)
	return n, nil
}

// readFrames reads the complete frames and returns where they end. It sets framed to false where there is no frame.
func (j *joiner) readFrames() int {
	from := 0
	for {
		text := bytes.TrimLeft(j.text[from:], "\n")
		from = len(j.text) - len(text)
		digits := 0
		for digits < min(len(text), maxFrameDigits) && text[digits] >= '0' && text[digits] <= '9' {
			digits++
		}
		if digits == len(text) {
			return from
		}
		length, err := strconv.Atoi(string(text[:digits]))
		if err != nil || text[digits] != ' ' {
			j.framed = false
			return from
		}
		body := text[digits+1:]
		if len(body) < length {
			if length <= maxRecord {
				return from
			}
			j.skip = length - len(body)
			return len(j.text)
		}
		from += digits + 1
		j.read(body[:length], j.base+int64(from))
		from += length
	}
}

// readLines reads the complete records of a text and returns where they end.
func (j *joiner) readLines(text []byte, at int64) int {
	from := 0
	if len(j.open) == 0 && (j.begun == maxJoinedKeys || !bytes.Contains(text, keyMarker)) {
		from = max(0, len(text)-maxRecord)
		from += bytes.LastIndexByte(text[from:], '\n') + 1
		for _, b := range borders {
			from += bytes.LastIndex(text[from:], b) + 1
		}
		return from
	}
	for {
		i := bytes.IndexByte(text[from:], '\n')
		if i < 0 {
			break
		}
		end := from + i
		from += j.readElements(text[from:end], at+int64(from))
		j.read(text[from:end], at+int64(from))
		from = end + 1
	}
	from += j.readElements(text[from:], at+int64(from))
	return max(from, len(text)-maxRecord)
}

// readElements reads the elements of an array in a line but the last one, and returns where that begins.
func (j *joiner) readElements(line []byte, at int64) int {
	from := 0
	for _, b := range borders {
		for {
			i := bytes.Index(line[from:], b)
			if i < 0 {
				break
			}
			j.read(line[from:from+i+1], at+int64(from))
			from += i + len(b) - 1
		}
	}
	return from
}

// read reads a record.
func (j *joiner) read(text []byte, at int64) {
	if len(text) > maxRecord {
		return
	}
	if len(j.open) > 0 {
		source := j.source(text, at)
		for _, key := range j.open {
			if key.late++; key.source == source {
				key.add(key.message(text))
			}
		}
		j.finish(func(key *joinedKey) bool {
			return key.ended || key.late > maxRecordsLate || len(key.text) > maxKeyText
		})
	}
	if bytes.Contains(text, keyMarker) {
		j.begin(text, at)
	}
}

// begin begins a key if a record has the first line of one alone.
func (j *joiner) begin(text []byte, at int64) {
	if j.begun == maxJoinedKeys {
		return
	}
	first := keyBegin.FindSubmatchIndex(text)
	if first == nil || keyBody.Match(text[first[1]:]) {
		return
	}
	j.begun++
	if len(j.open) == maxOpenKeys {
		oldest := j.open[0]
		j.finish(func(key *joinedKey) bool { return key == oldest })
	}
	j.open = append(j.open, &joinedKey{
		source: j.source(text, at), members: membersOf(text), label: string(text[first[2]:first[3]]),
		at:     at + int64(first[0]),
		before: slices.Clone(text[:first[0]]), after: slices.Clone(text[first[1]:]),
		text: append(slices.Clone(text[first[0]:first[1]]), '\n'),
	})
}

// finish ends keys.
func (j *joiner) finish(ended func(*joinedKey) bool) {
	j.open = slices.DeleteFunc(j.open, func(key *joinedKey) bool {
		if !ended(key) {
			return false
		}
		j.done = append(j.done, key)
		return true
	})
}

// source returns what tells the writer of a record from others: its log group, and the host, application and process of
// a syslog line, or the members with these.
func (j *joiner) source(text []byte, at int64) string {
	parts := []string{j.of.origins.at(at)}
	if bytes.HasPrefix(text, []byte{'<'}) {
		fields := strings.SplitN(string(text[:min(len(text), 2*maxValue)]), " ", 6)
		return strings.Join(append(parts, fields[min(2, len(fields)):min(5, len(fields))]...), " ")
	}
	for _, name := range sourceKeys {
		parts = append(parts, value(text, name))
	}
	return strings.Join(parts, " ")
}

// membersOf returns the members whose text has the first line of a key: {"log":"{\"msg\":\"-----BEGIN …: log and msg.
func membersOf(text []byte) (members []string) {
	for len(members) < maxNesting {
		first := keyBegin.FindIndex(text)
		if first == nil {
			break
		}
		quote := first[0] - 1
		for quote > 0 && (text[quote] != '"' || text[quote-1] == '\\') {
			quote--
		}
		if quote <= 0 {
			break
		}
		before := bytes.TrimRight(text[:quote], " \t")
		name, isLogfmt := bytes.CutSuffix(before, []byte{'='})
		if isLogfmt {
			name = name[bytes.LastIndexByte(name, ' ')+1:]
		} else {
			before, isMember := bytes.CutSuffix(before, []byte{':'})
			before, isQuoted := bytes.CutSuffix(bytes.TrimRight(before, " \t"), []byte{'"'})
			if !isMember || !isQuoted {
				break
			}
			name = before[bytes.LastIndexByte(before, '"')+1:]
		}
		members = append(members, string(name))
		text = []byte(jsonValue(text[quote:], maxRecord))
	}
	return members
}

// message returns the text of a record that may be a line of the key.
func (key *joinedKey) message(text []byte) []byte {
	for _, name := range key.members {
		text = []byte(longValue(text, name, maxRecord))
	}
	return text
}

// add takes a line of the key, and passes over others. A short one counts if no longer one follows.
func (key *joinedKey) add(message []byte) {
	message = colour.ReplaceAll(message, nil)
	line := keyLine.FindSubmatch(message)
	switch {
	case bytes.Contains(message, keyEnd):
		key.ended = true
		key.text = append(append(key.text, key.short...), "\n-----END "+key.label+"-----"...)
	case line == nil:
	case len(line[1]) >= minKeyLine:
		key.text = append(append(key.text, line[1]...), '\n')
		key.size += len(line[1])
		key.short, key.late = nil, 0
	case (key.size+len(line[1]))%4 == 0: // as base64 ends
		key.short = slices.Clone(line[1])
	}
}

// known records that the stream has found a key.
func (j *joiner) known(f secrets.Found) {
	if f.Rule.Kind != secrets.KindPEM {
		return
	}
	for _, key := range slices.Concat(j.open, j.done) {
		key.found = key.found || key.at == f.Offset
	}
}

// close passes on the keys that the stream has not found, in their order in the body.
func (j *joiner) close(emit func(secrets.Found) bool) {
	if !j.framed {
		j.read(j.text, j.base)
	}
	j.finish(func(*joinedKey) bool { return true })
	slices.SortFunc(j.done, func(a, b *joinedKey) int { return int(a.at - b.at) })
	for _, key := range j.done {
		j.scanner.Scan(key.text, func(m secrets.Match) bool {
			return key.found || m.Rule.Kind != secrets.KindPEM || emit(secrets.Found{
				Rule: m.Rule, Offset: key.at, Secret: key.text[m.Start:m.End], Before: key.before, After: key.after,
			})
		})
	}
}

// clear forgets the lines.
func (j *joiner) clear() {
	clear(j.text[:cap(j.text)])
	for _, key := range slices.Concat(j.open, j.done) {
		clear(key.text[:cap(key.text)])
	}
}
