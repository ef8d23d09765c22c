package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/event"
)

// maxMessage is the longest error message of an attempt, in characters.
const maxMessage = 500

// Classify returns the error code of an attempt that failed with err, in RoundTrip or while reading the response; empty
// for nil. The caller sets http_status and redirect_blocked from the response. A request that the caller cancelled is
// network_error; callers check for that first.
//
// A DNS lookup that takes too long is dns_error if the resolver gave up and timeout if the attempt's deadline expired
// first.
func Classify(err error) event.ErrorCode {
	var blocked *AddressBlockedError
	var dns *net.DNSError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &blocked):
		return event.CodeAddressBlocked
	case errors.As(err, &dns):
		return event.CodeDNS
	case isTimeout(err):
		return event.CodeTimeout
	case isTLS(err):
		return event.CodeTLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return event.CodeConnectionRefused
	case isUnreachable(err):
		return event.CodeNetworkUnreachable
	case isHeaderTooLarge(err):
		return event.CodeResponseTooLarge
	case isReset(err):
		return event.CodeConnectionReset
	case isInternal(err):
		return event.CodeInternal
	}
	return event.CodeNetwork
}

// isTimeout covers the attempt's deadline, a connect or handshake that took too long, and a TCP timeout (ETIMEDOUT).
func isTimeout(err error) bool {
	var timeout net.Error // which context.DeadlineExceeded and os.ErrDeadlineExceeded implement too
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isTLS covers invalid certificates, a peer that does not speak TLS, and alerts from either side. The innermost errors
// of crypto/tls begin with "tls: "; most have no type. That of an invalid certificate is one of crypto/x509. Those that
// a connection ends with have types, by which they are found in an error of several causes, as the mail client makes.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert *net.OpError
	return errors.As(err, &verification) || errors.As(err, &record) ||
		errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error") ||
		strings.HasPrefix(rootText(err), "tls: ")
}

func isUnreachable(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETDOWN) || errors.Is(err, syscall.EHOSTDOWN)
}

// isHeaderTooLarge recognises net/http's errors for a header block that is too large by their text, because they have
// no type. TestClassifyPlain and TestClassifyTLS compare the texts with HTTP/1 and HTTP/2 servers. An HTTP/2 block far
// above the limit ends the connection with PROTOCOL_ERROR, as a broken frame does; it stays network_error, because the
// text does not tell them apart.
func isHeaderTooLarge(err error) bool {
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") ||
		strings.Contains(text, "response header list larger than advertised limit") ||
		strings.Contains(text, "header list too large") ||
		// A single header longer than the limit fails HPACK decoding and ends the HTTP/2 connection. A broken encoder gives
		// the same error; it is less likely.
		strings.Contains(text, "connection error: COMPRESSION_ERROR")
}

// streamError matches net/http's error for an HTTP/2 stream that the peer reset: errors.As converts it to any struct
// with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

// isReset covers connections and streams that ended before the response was complete.
func isReset(err error) bool {
	var stream streamError
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &stream)
}

// isInternal covers errors of the relay itself: a request that net/http refuses to send, and no file descriptor left.
func isInternal(err error) bool {
	text := err.Error()
	return isOutOfFiles(err) || strings.HasPrefix(text, "net/http: invalid ") || strings.HasPrefix(text, "http: nil ") ||
		strings.HasPrefix(text, "unsupported protocol scheme") || strings.HasPrefix(text, "http: no Host in request URL")
}

func isOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// rootText is the text of the innermost error.
func rootText(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// ownEnd is this machine's end of a connection in the text of an error: read tcp 10.1.2.3:40000->198.51.100.7:443.
var ownEnd = regexp.MustCompile(`\b(tcp[46]?) \S+->`)

// Message returns the text of err for an attempt: one line of at most 500 printable characters, because it may contain
// bytes that the receiver sent. It does not contain the address of the operator's resolver, nor that of this machine.
func Message(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	var dns *net.DNSError
	if errors.As(err, &dns) {
		text = dnsMessage(dns)
	}
	text = ownEnd.ReplaceAllString(text, "$1 ")
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxMessage {
		return string(runes[:maxMessage-1]) + "…"
	}
	return text
}

// dnsMessage describes a DNS error without the resolver's address, which is in most of the original texts.
func dnsMessage(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "look up " + err.Name + ": no such host"
	case err.IsTimeout:
		return "look up " + err.Name + ": no answer in time"
	}
	return "look up " + err.Name + ": the name server gave no usable answer"
}
