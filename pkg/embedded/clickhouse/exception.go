package clickhouse

import (
	"fmt"
	"regexp"
	"strconv"
)

// exception is an error in ClickHouse's form, as its HTTP interface sends it: the text in the body, the code in a
// header.
type exception struct {
	code int
	text string
}

func (e *exception) Error() string { return e.text }

func (e *exception) codeText() string { return strconv.Itoa(e.code) }

// Codes of ClickHouse's ErrorCodes.cpp that this package itself answers with.
const (
	codeNoDataToInsert = 108
	codeUnknownSetting = 115
	codeTooManyBytes   = 307
	codeCannotReadAll  = 33
	codeStdException   = 1001
	codeNotImplemented = 48
	codeBadArguments   = 36
	codeSyntaxError    = 62
	codeReadonly       = 164
	codeAccessDenied   = 497

	codeAuthenticationFailed = 516
)

var exceptionCode = regexp.MustCompile(`Code: (\d+)\.`)

// parseException parses the engine's error text, "Code: N. DB::Exception: …".
func parseException(text string) error {
	e := &exception{code: codeStdException, text: text}
	if m := exceptionCode.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			e.code = n
		}
	}
	return e
}

func newException(code int, name, format string, args ...any) error {
	return &exception{code: code,
		text: fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", code, fmt.Sprintf(format, args...), name)}
}
