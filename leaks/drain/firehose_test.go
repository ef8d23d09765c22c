package drain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// pieces reads a text in pieces of a few bytes, whose lengths follow from cuts.
type pieces struct {
	text []byte
	cuts uint64
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.text[:min(len(p.text), int(p.cuts&7)+1)])
	p.text, p.cuts = p.text[n:], p.cuts>>3|p.cuts<<61
	return n, nil
}

// readFirehose returns the request id and the records that the drain reads of a body.
func readFirehose(body []byte, cuts uint64) (id string, records []byte, err error) {
	of := &request{}
	wire := &wireReader{w: httptest.NewRecorder(), body: &pieces{body, cuts}, began: time.Now(), most: maxBody,
		left: maxScanned, pace: func(int) error { return nil }}
	in, err := newSlots().enter("drn_1")
	if err != nil {
		return "", nil, err
	}
	wire.turn = &turn{in: in, waited: wire.addWait}
	err = expandFirehose(of, wire, func(b []byte) error {
		records = append(records, b...)
		return nil
	})
	return of.delivery, records, err
}

// wantFirehose reads a body with encoding/json. It reports false for a body that the drain may refuse.
func wantFirehose(body []byte) (id string, records []byte, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	if !json.Valid(body) || !isDelim(d, '{') {
		return "", nil, false
	}
	ok = true
	for ok && d.More() {
		switch name, _ := d.Token(); name {
		case "records":
			ok = isDelim(d, '[')
			for ok && d.More() {
				if ok = isDelim(d, '{'); ok {
					records, ok = wantRecord(d, records)
				}
			}
			ok = ok && isDelim(d, ']')
		case "requestId":
			text, isText := nextToken(d).(string)
			if ok = isText && len(text) <= maxDelivery && isASCII(text); id == "" {
				id = text
			}
		default:
			ok = skipValue(d) && len(name.(string)) <= maxMemberName
		}
	}
	return id, records, ok
}

// wantRecord reads a record, whose first brace is read, and appends it decoded.
func wantRecord(d *json.Decoder, records []byte) ([]byte, bool) {
	for d.More() {
		name, _ := nextToken(d).(string)
		if name != "data" {
			if !skipValue(d) || len(name) > maxMemberName {
				return records, false
			}
			continue
		}
		text, isText := nextToken(d).(string)
		data, err := base64.StdEncoding.DecodeString(text)
		if !isText || err != nil {
			return records, false
		}
		if bytes.HasPrefix(data, []byte{0x1f, 0x8b, 8}) {
			z, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				return records, false
			}
			if data, err = io.ReadAll(io.LimitReader(z, 1<<20)); err != nil {
				return records, false
			}
		}
		records = append(append(records, data...), '\n')
	}
	return records, isDelim(d, '}')
}

func nextToken(d *json.Decoder) json.Token {
	t, _ := d.Token() // the text is valid
	return t
}

func isDelim(d *json.Decoder, want json.Delim) bool { return nextToken(d) == want }

// skipValue skips a value, and reports whether the drain skips it too.
func skipValue(d *json.Decoder) bool {
	deepest := 0
	for depth := 0; ; {
		switch t := nextToken(d).(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if len(t) > maxMemberName { // it may be a name
				deepest = maxSkipDepth
			}
		}
		if deepest = max(deepest, depth); depth == 0 {
			return deepest < maxSkipDepth
		}
	}
}

func isASCII(text string) bool {
	for _, c := range []byte(text) {
		if c == 0 || c > 0x7e {
			return false
		}
	}
	return true
}

// The drain reads of Firehose's bodies what encoding/json reads, however the connection cuts them.
func FuzzFirehose(f *testing.F) {
	record := base64.StdEncoding.EncodeToString
	for _, body := range []string{
		`{"requestId":"ed4acda5","timestamp":1578090901599,"records":[{"data":"` + record([]byte("one")) + `"},{"data":""}]}`,
		`{"records":[{"data":"` + record([]byte(gzipped("two"))) + `","x":[1,{"a":null}]}],"requestId":"a\u0062\/\"c"} `,
		` { "a" : true , "records" : [ { } , { "data" : "\u0051UI=" } ] }`, `{"records":[]}`, `{}`,
		`{"requestId":"","requestId":"x"}`,
		`{"records":[{"data":"QQ==QQ=="}]}`, `{"records":[{"data":"QUI\n="}],"n":-1.5e+3,"s":"\ud83d\ude00"}`,
	} {
		f.Add([]byte(body), uint64(0x123456789abcdef))
		f.Add([]byte(body), ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, body []byte, cuts uint64) {
		if len(body) > 4<<10 {
			return
		}
		id, records, err := readFirehose(body, cuts)
		wantID, want, ok := wantFirehose(body)
		if ok && (err != nil || id != wantID || !bytes.Equal(records, want)) {
			t.Errorf("read %q %q (%v), want %q %q", id, records, err, wantID, want)
		}
		otherID, other, otherErr := readFirehose(body, 0x9e3779b97f4a7c15)
		if otherID != id || (otherErr == nil) != (err == nil) || err == nil && !bytes.Equal(records, other) {
			t.Errorf("cut otherwise: %q %q (%v), want %q %q (%v)", otherID, other, otherErr, id, records, err)
		}
	})
}
