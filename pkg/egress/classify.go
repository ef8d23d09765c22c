package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/event"
)

// maxMessage is the longest error message of an attempt, in characters.
const maxMessage = 500

// Classify returns the error code of an attempt whose RoundTrip, or whose reading of the response,
// ended in err; empty for nil. A status is not an error here: http_status and redirect_blocked are the
// caller's. A request that the caller itself cancelled is network_error; whoever cancels knows it
// before asking.
//
// A name that cannot be resolved in time is dns_error when the resolver says so and timeout when the
// attempt's own deadline was first.
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

// isTimeout covers the attempt's deadline, a connect or handshake that took too long, and TCP giving
// up on a peer (ETIMEDOUT), all of which answer Timeout.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

// isTLS covers certificates that do not verify, a peer that does not speak TLS, and alerts from either
// side. crypto/tls has types for some of its errors only; the rest begin with its name.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert *net.OpError
	var ech *tls.ECHRejectionError
	switch {
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &ech),
		errors.Is(err, http.ErrSchemeMismatch):
		return true
	case errors.As(err, &x509.UnknownAuthorityError{}), errors.As(err, &x509.HostnameError{}),
		errors.As(err, &x509.CertificateInvalidError{}):
		return true
	case errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error"):
		return true
	}
	return strings.HasPrefix(rootText(err), "tls: ")
}

func isUnreachable(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETDOWN) || errors.Is(err, syscall.EHOSTDOWN)
}

// isHeaderTooLarge knows net/http's refusals of a header block by their text, there being no type: the
// test holds them against servers that send one over HTTP/1 and over HTTP/2. An HTTP/2 block that is
// over by much ends the connection with PROTOCOL_ERROR, as a broken frame does; that one is left as
// network_error, for the text does not tell which of the two it was.
func isHeaderTooLarge(err error) bool {
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") ||
		strings.Contains(text, "response header list larger than advertised limit") ||
		strings.Contains(text, "header list too large") ||
		// One header longer than the whole limit cannot be unpacked, which ends the HTTP/2 connection. An
		// encoder that is simply broken reads the same; it is the rarer of the two.
		strings.Contains(text, "connection error: COMPRESSION_ERROR")
}

// streamError has the shape by which net/http shows that the peer reset an HTTP/2 stream (its errors
// of that kind convert themselves to any such struct).
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

// isReset covers a connection that ended before the response did, in whatever way the peer chose.
func isReset(err error) bool {
	var stream streamError
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &stream)
}

// isInternal knows a request that net/http refused to send, for the fault is in what we built, and that this machine or
// process has no open files left.
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

// Message returns the text of err as an attempt shows it: one line of at most 500 printable
// characters, since a receiver can put its own bytes into it, and without the address of our resolver.
func Message(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	var dns *net.DNSError
	if errors.As(err, &dns) {
		text = dnsMessage(dns)
	}
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

// dnsMessage leaves out what the resolver says of itself: its address is in most of its texts.
func dnsMessage(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "look up " + err.Name + ": no such host"
	case err.IsTimeout:
		return "look up " + err.Name + ": no answer in time"
	}
	return "look up " + err.Name + ": the name server gave no usable answer"
}
