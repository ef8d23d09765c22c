package wire

import (
	"github.com/eventrelay/relay/pkg/web"
)

// StreamEvent is an event that was accepted.
type StreamEvent struct {
	ID         string   `json:"id" ref:"EventId"`
	ReceivedAt web.Time `json:"received_at"`
	Type       *string  `json:"type"`
	Method     string   `json:"method"`
	// `/`, and the query of the request.
	Path string `json:"path"`
	// `[name, value]` as received, repeats kept. Bytes of a value that are not UTF-8 are U+FFFD here; `headers_base64`
	// has them.
	Headers [][2]string `json:"headers" ref:"HeaderPairs"`
	// Present only if the value of a header is not UTF-8: for each pair, in its order, the value in base64, or `null`.
	HeadersBase64 []*string `json:"headers_base64,omitempty" ref:"HeadersBase64"`
	// Empty when `truncated`.
	Body []byte `json:"body" ref:"StreamBody"`
	// Of the body.
	Size int `json:"size" minimum:"0"`
	// The body is larger than 1 MiB.
	Truncated bool `json:"truncated"`
}

// StreamGap says that events are missing.
type StreamGap struct {
	// Since when.
	From web.Time `json:"from"`
	// `retention`: they are older than events are kept. `log`: the log was made anew.
	Reason string `json:"reason" enum:"retention,log"`
}
