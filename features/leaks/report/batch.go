package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of a batch.
const (
	maxServerBody  = 128 << 10 // bytes, also uncompressed
	maxBrowserBody = 60_000
	maxReports     = 50
	maxCount       = 1_000_000
	maxPosition    = 10_000_000 // of lines and columns
)

// readBody returns the uncompressed body. It is decompressed in turn, when all of it is there.
func (in *Intake) readBody(r *http.Request, platform string) ([]byte, error) {
	limit := int64(maxServerBody)
	if platform == leak.DSNBrowser {
		limit = maxBrowserBody
	}
	if r.ContentLength > limit {
		return nil, tooLarge(r, limit)
	}
	compressed := false
	switch strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ",")) {
	case "", "identity":
	case "gzip":
		compressed = true
	default:
		return nil, web.Invalid("content-encoding", "must be gzip or absent")
	}
	body, err := readUpTo(r, r.Body, limit, "the body did not arrive completely and in time; send it again")
	if err != nil || !compressed {
		return body, err
	}
	select {
	case in.unzipping <- struct{}{}:
		defer func() { <-in.unzipping }()
	case <-r.Context().Done():
		return nil, web.ServiceUnavailable(nil, "this node reads as many reports as it can; send the batch again")
	}
	unzipped, err := intake.NewGzipReader(bytes.NewReader(body))
	if err != nil {
		return nil, web.Invalid("", "the body is not gzip, though Content-Encoding says so")
	}
	return readUpTo(r, unzipped, limit, "the gzip data of the body is corrupt or incomplete; send it again")
}

// readUpTo reads the body of a request, compressed or not. failed is why it cannot be read.
func readUpTo(r *http.Request, from io.Reader, limit int64, failed string) ([]byte, error) {
	var buf bytes.Buffer // grows with what arrives, not with Content-Length
	switch n, err := buf.ReadFrom(io.LimitReader(from, limit+1)); {
	case n > limit:
		return nil, tooLarge(r, limit)
	case err != nil:
		return nil, web.Invalid("", "%s", failed)
	}
	return buf.Bytes(), nil
}

func tooLarge(r *http.Request, limit int64) error {
	web.Discard(r)
	return intake.TooLarge("the body is longer than %d bytes; send fewer reports in each", limit)
}

// batch is the body of a request.
type batch struct {
	ID  string `json:"id"`
	SDK struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"sdk"`
	SentAt      string            `json:"sent_at"`
	Environment *string           `json:"environment"`
	Release     *string           `json:"release"`
	Reports     []json.RawMessage `json:"reports"`
	Dropped     json.RawMessage   `json:"dropped"`

	sentAt time.Time
}

// rawReport is one report of a batch.
type rawReport struct {
	Type    string          `json:"type"`
	Rule    string          `json:"rule"`
	Masked  string          `json:"masked"`
	FP1     *string         `json:"fp1"`
	Count   int64           `json:"count"`
	FirstAt string          `json:"first_at"`
	LastAt  string          `json:"last_at"`
	Where   json.RawMessage `json:"where"`
}

// where is the location of a report.
type where struct {
	Logger      *string `json:"logger"`
	File        *string `json:"file"`
	Line        *int64  `json:"line"`
	Column      *int64  `json:"column"`
	Function    *string `json:"function"`
	Method      *string `json:"method"`
	Path        *string `json:"path"`
	Status      *int64  `json:"status"`
	ContentType *string `json:"content_type"`
}

// Alphabets of members.
var (
	isBatchID   = regexp.MustCompile(`^[0-9A-Za-z]{22}$`).MatchString
	isVersion   = regexp.MustCompile(`^[A-Za-z0-9._+-]{1,64}$`).MatchString
	isSDKName   = regexp.MustCompile(`^[a-z0-9._-]{1,40}$`).MatchString
	isLabel     = regexp.MustCompile(`^[A-Za-z0-9._@/+-]{1,64}$`).MatchString
	isLogger    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`).MatchString
	isMethod    = regexp.MustCompile(`^[A-Z]{1,20}$`).MatchString
	isRule      = regexp.MustCompile(`^(custom:)?[a-z0-9-]{1,40}$`).MatchString
	isTimestamp = regexp.MustCompile(
		`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`).MatchString
)

// parseTime reads a time of RFC 3339 with up to nine decimals. time.Parse alone also takes a comma, one-digit hours
// and offsets of more than a day.
func parseTime(text string) (time.Time, bool) {
	text = strings.ToUpper(text) // RFC 3339, 5.6: t and z may be lower case
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && isTimestamp(text) && at.UTC().Year() >= 1 && at.UTC().Year() <= 9999
}

// parseBatch reads a body. Its errors name the member.
func parseBatch(body []byte) (*batch, error) {
	if _, err := web.ParseObject(nil, body); err != nil {
		return nil, web.InvalidJSON("", err)
	}
	b := &batch{}
	if err := json.Unmarshal(body, b); err != nil {
		return nil, web.Invalid("", "a member of the body has the wrong type; see docs/design/reports.md")
	}
	ok := false
	switch b.sentAt, ok = parseTime(b.SentAt); {
	case !isBatchID(b.ID):
		return nil, web.Invalid("id", "must have 22 characters of base62")
	case !isSDKName(b.SDK.Name) || !isVersion(b.SDK.Version):
		return nil, web.Invalid("sdk", "must have a name and a version")
	case !ok:
		return nil, web.Invalid("sent_at", "must be a time such as 2026-08-21T22:24:36.123Z")
	case b.Environment != nil && !isLabel(*b.Environment):
		return nil, web.Invalid("environment", "must have 1 to 64 characters of A-Z a-z 0-9 . _ @ / + -")
	case b.Release != nil && !isLabel(*b.Release):
		return nil, web.Invalid("release", "must have 1 to 64 characters of A-Z a-z 0-9 . _ @ / + -")
	case b.Reports == nil || len(b.Reports) > maxReports:
		return nil, web.Invalid("reports", "must be an array of at most %d reports", maxReports)
	}
	return b, nil
}

// dropped are the counts of what an SDK could not report.
type dropped struct {
	QueueFull     uint32 `json:"queue_full"`
	Sampled       uint32 `json:"sampled"`
	SendFailed    uint32 `json:"send_failed"`
	MaskingFailed uint32 `json:"masking_failed"`
}

// dropped returns the counts of a batch; zeros if they are malformed.
func (b *batch) dropped() (d dropped) {
	if json.Unmarshal(b.Dropped, &d) != nil {
		return dropped{}
	}
	return d
}

// reason says why a report is rejected; the values are those of docs/design/reports.md.
type reason string

const (
	accepted           reason = ""
	invalidReport      reason = "invalid_report"
	invalidRule        reason = "invalid_rule"
	invalidMask        reason = "invalid_mask"
	invalidFingerprint reason = "invalid_fingerprint"
	invalidWhere       reason = "invalid_where"
	overQuota          reason = "quota"
)

// Types of reports.
const (
	typeLog      = "log"
	typeResponse = "response"
	typeError    = "error"
)

// ruleOther stands for the rules of SDKs that are newer than this node.
const ruleOther = "other"

// report is a checked report. Its texts are still untrusted.
type report struct {
	kind         string
	rule         string        // one that is known, custom:…, or ruleOther
	known        *secrets.Rule // nil unless it is one of the scanner's
	masked       string
	fingerprint1 *[32]byte // the salted hash of the secret; nil = none
	count        uint32
	lastAt       time.Time
	where        where
}

// parseReport checks one report of a batch.
func (in *Intake) parseReport(text []byte) (*report, reason) {
	var raw rawReport
	if json.Unmarshal(text, &raw) != nil {
		return nil, invalidReport
	}
	_, firstOK := parseTime(raw.FirstAt) // it may be after last_at: clocks are set back
	last, lastOK := parseTime(raw.LastAt)
	isKind := raw.Type == typeLog || raw.Type == typeResponse || raw.Type == typeError
	if !isKind || !firstOK || !lastOK || raw.Count < 1 || raw.Count > maxCount {
		return nil, invalidReport
	}
	r := &report{kind: raw.Type, rule: raw.Rule, known: in.rules[raw.Rule], masked: raw.Masked, count: uint32(raw.Count),
		lastAt: last}
	custom := strings.HasPrefix(raw.Rule, finding.CustomPrefix)
	switch {
	case !isRule(raw.Rule):
		return nil, invalidRule
	case r.known != nil && r.known.Exposure == secrets.Public && r.kind == typeResponse:
		return nil, invalidRule // clients may know it
	case r.known == nil && !custom:
		r.rule = ruleOther
	}
	switch {
	case !in.isMask(r):
		return nil, invalidMask
	case !r.setFingerprint(raw.FP1, custom):
		return nil, invalidFingerprint
	case !r.setWhere(raw.Where):
		return nil, invalidWhere
	}
	return r, accepted
}

// isMask reports whether the mask of a report has the shape of its rule's, and is no secret. It removes the host of a
// web address: people are notified, and strangers must not name a site to them.
func (in *Intake) isMask(r *report) bool {
	if r.known != nil && !r.known.IsMask(r.masked) || !secrets.IsMask(r.masked) {
		return false
	}
	_, n := in.deps.Scanner.MaskAll(nil, []byte(r.masked))
	if user, _, found := strings.Cut(r.masked, "@"); found && strings.HasPrefix(strings.ToLower(user), "http") {
		r.masked = user + "@***"
	}
	return n == 0
}

// setFingerprint reads the salted hash of the secret, and reports whether the rule has one exactly if it is there.
func (r *report) setFingerprint(text *string, custom bool) bool {
	switch {
	case text == nil:
		return r.known == nil || !r.known.Fingerprint
	case custom, r.known != nil && !r.known.Fingerprint, len(*text) != base64.RawURLEncoding.EncodedLen(32):
		return false
	}
	r.fingerprint1 = new([32]byte)
	n, err := base64.RawURLEncoding.Strict().Decode(r.fingerprint1[:], []byte(*text))
	return err == nil && n == len(r.fingerprint1)
}

// setWhere reads the location, and reports whether its members are valid. It leaves out those of other types.
func (r *report) setWhere(text []byte) bool {
	var object *where
	if json.Unmarshal(text, &object) != nil || object == nil {
		return false
	}
	r.where = *object
	w := &r.where
	if r.kind == typeResponse {
		*w = where{Method: w.Method, Path: w.Path, Status: w.Status, ContentType: w.ContentType}
		return matches(w.Method, isMethod) && matches(w.Path, isText(256)) && !contains(w.Path, "?") &&
			between(w.Status, 100, 599) && matches(w.ContentType, isText(100))
	}
	*w = where{Logger: w.Logger, File: w.File, Line: w.Line, Column: w.Column, Function: w.Function}
	return matches(w.Logger, isLogger) && matches(w.File, isText(256)) && matches(w.Function, isText(100)) &&
		between(w.Line, 1, maxPosition) && between(w.Column, 1, maxPosition)
}

func matches(text *string, is func(string) bool) bool { return text == nil || is(*text) }

func contains(text *string, part string) bool { return text != nil && strings.Contains(*text, part) }

func between(n *int64, least, most int64) bool { return n == nil || *n >= least && *n <= most }

// isText returns a check for 1 to most printable characters without spaces at the ends.
func isText(most int) func(string) bool {
	return func(s string) bool {
		return s != "" && len(s) <= most*utf8.UTFMax && utf8.RuneCountInString(s) <= most && strings.TrimSpace(s) == s &&
			!strings.ContainsFunc(s, func(c rune) bool {
				return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Co, unicode.Zl, unicode.Zp)
			})
	}
}
