package wire

import (
	"encoding/json"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// EventCounts counts the deliveries of an event by their state.
type EventCounts struct {
	Total     int `json:"total" minimum:"0"`
	Delivered int `json:"delivered" minimum:"0"`
	Failed    int `json:"failed" minimum:"0"`
	Pending   int `json:"pending" minimum:"0"`
}

// EventBase is what a list and the single read show of an event.
type EventBase struct {
	ID         string       `json:"id" ref:"EventId"`
	Object     string       `json:"object" const:"event"`
	EndpointID string       `json:"endpoint_id" ref:"EndpointId"`
	Type       *string      `json:"type"`
	Status     event.Status `json:"status" ref:"EventStatus"`
	Source     event.Source `json:"source" enum:"provider,api,test,reconcile"`
	// Number of its deliveries by state.
	Destinations EventCounts `json:"destinations"`
	// State of the newest processing receipt, `none` without one.
	Processing    event.Processing `json:"processing" enum:"none,processing,processed,failed"`
	SizeBytes     int              `json:"size_bytes" minimum:"0"`
	ReceivedAt    web.Time         `json:"received_at"`
	LastAttemptAt web.Time         `json:"last_attempt_at" nullable:"true"`
	NextAttemptAt web.Time         `json:"next_attempt_at" nullable:"true"`
	Reason        *event.Reason    `json:"reason" ref:"EventReason"`
	// Explains the status in one sentence, for people. It says so if no attempt is made at `next_attempt_at`, because the
	// endpoint or a destination was deleted, disabled, purged or paused since. A list does not know the last attempt.
	Why string `json:"why"`
	// The same as values.
	WhyDetails Why `json:"why_details"`
	// When the payload was erased on request.
	PayloadErasedAt web.Time `json:"payload_erased_at" nullable:"true"`
	// How far the origin of the event is proved. `verified`: by the provider's signature. `observed`: the signature is
	// missing or wrong, and the endpoint only observes. `unverified`: the endpoint asks for no signature. `rejected`: the
	// signature is missing or wrong. `sent`: through this API. Deliveries carry it as `relay-verification`.
	Verification event.Proof `json:"verification" enum:"verified,observed,unverified,sent,rejected"`
}

// DeliveryState is the state of an event at one destination, in a list.
type DeliveryState struct {
	DestinationID string        `json:"destination_id" ref:"DestinationId"`
	Status        event.Status  `json:"status" enum:"pending,retrying,held,delivered,failed,skipped"`
	Reason        *event.Reason `json:"reason" ref:"EventReason"`
	// HTTP status of the last attempt; `null` without a response.
	LastResponseStatus *int `json:"last_response_status"`
}

// EventRow is an event in a list, and the answer to a send.
type EventRow struct {
	EventBase
	// Number of HTTP attempts at all destinations.
	Attempts int `json:"attempts" minimum:"0"`
	// The newest state at each destination.
	Deliveries []DeliveryState `json:"deliveries"`
}

// AttemptRequest is the request of an attempt.
type AttemptRequest struct {
	URL    string `json:"url"`
	Method string `json:"method"`
	// Credentials are masked.
	Headers map[string]string `json:"headers"`
}

// AttemptResponse is the answer of the destination.
type AttemptResponse struct {
	Headers      map[string]string `json:"headers"`
	Body         string            `json:"body"`
	BodyEncoding string            `json:"body_encoding" ref:"BodyEncoding"`
	Truncated    bool              `json:"truncated"`
}

// Attempt is one request to a destination.
type Attempt struct {
	ID            string `json:"id" ref:"AttemptId"`
	EventID       string `json:"event_id" ref:"EventId"`
	EndpointID    string `json:"endpoint_id" ref:"EndpointId"`
	DestinationID string `json:"destination_id" ref:"DestinationId"`
	DeliveryID    string `json:"delivery_id" ref:"DeliveryId"`
	// Number of the attempt for this event and destination, counted through all replays and recovery jobs. The header
	// `relay-attempt` of the request begins with 1 again in each of them.
	AttemptNumber  int           `json:"attempt_number" minimum:"1"`
	Trigger        event.Trigger `json:"trigger" enum:"initial,retry,replay,recovery,canary,test"`
	RunID          *string       `json:"run_id"`
	RecoveryID     *string       `json:"recovery_id"`
	Status         string        `json:"status" enum:"succeeded,failed"`
	ResponseStatus *int          `json:"response_status"`
	// What was wrong with the answer, or why there is none. No attempt has `transform_failed` or `payload_expired`: then
	// no request is made, and they are the `reason` of the delivery.
	ErrorCode         *event.ErrorCode `json:"error_code" enum:"http_status,timeout,dns_error,connection_refused,connection_reset,network_unreachable,network_error,tls_error,redirect_blocked,address_blocked,response_too_large,token_error,access_denied,not_found,too_large,refused,not_acknowledged,transform_failed,payload_expired,internal"`
	ErrorMessage      *string          `json:"error_message" maxLength:"500" example:"connection refused"`
	StartedAt         web.Time         `json:"started_at"`
	DurationMS        int64            `json:"duration_ms" minimum:"0"`
	TTFBMS            int64            `json:"ttfb_ms" minimum:"0"`
	Request           AttemptRequest   `json:"request"`
	Response          *AttemptResponse `json:"response"`
	RemoteIP          *string          `json:"remote_ip"`
	NextAttemptAt     web.Time         `json:"next_attempt_at" nullable:"true"`
	RetryAfterSeconds *int64           `json:"retry_after_seconds"`
	// The version of the endpoint's transformation that made the body; 0: the body was sent as it is stored.
	TransformationVersion int `json:"transformation_version" minimum:"0"`
	// The OpenTelemetry trace of the attempt, which the request named in `traceparent`; `null`: it was not traced.
	TraceID *string `json:"trace_id"`
}

// TransformFailure says which operation of a transformation failed, and where.
type TransformFailure struct {
	// The version of the transformation.
	TransformationVersion int `json:"transformation_version" minimum:"1"`
	Failure
}

// Delivery is an event on its way to one destination.
type Delivery struct {
	ID            string        `json:"id" ref:"DeliveryId"`
	DestinationID string        `json:"destination_id" ref:"DestinationId"`
	Status        event.Status  `json:"status" enum:"pending,retrying,held,delivered,failed,skipped"`
	Reason        *event.Reason `json:"reason" ref:"EventReason"`
	// Explains the status in one sentence, for people.
	Why string `json:"why"`
	// The same as values.
	WhyDetails    Why      `json:"why_details"`
	Attempts      int      `json:"attempts" minimum:"0"`
	NextAttemptAt web.Time `json:"next_attempt_at" nullable:"true"`
	RunID         *string  `json:"run_id"`
	// Why the transformation failed, if `reason` is `transform_failed`. Computed again on each read: `null` if the payload
	// was erased, the endpoint was deleted, or the operations of that version are no longer kept.
	TransformFailure *TransformFailure `json:"transform_failure"`
	// Why the condition of the destination's filter had no value, if `reason` is `transform_failed`. Computed again on
	// each read: `null` if it has one now.
	FilterFailure *string `json:"filter_failure"`
}

// ReceiptFields are what the receiver reported.
type ReceiptFields struct {
	State     event.Processing `json:"state" enum:"processing,processed,failed"`
	Reference *string          `json:"reference"`
	Details   json.RawMessage  `json:"details" ref:"ReceiptDetails"`
}

// Receipt is what the application has reported of an event.
type Receipt struct {
	ReceiptFields
	CreatedAt web.Time `json:"created_at" nullable:"true"`
	UpdatedAt web.Time `json:"updated_at"`
}

// Event is everything that is known of one event.
type Event struct {
	EventBase
	// The newest 200 attempts, oldest first. Response bodies are cut to 1 KiB.
	Attempts []Attempt `json:"attempts" maxItems:"200"`
	// Headers by name. Repeated ones are joined with a comma, bytes that are not UTF-8 are U+FFFD.
	Headers map[string]string `json:"headers"`
	// `[name, value]` pairs as received, with repeats. Bytes of a value that are not UTF-8 are U+FFFD here;
	// `headers_base64` has them.
	HeadersRaw [][2]string `json:"headers_raw" ref:"HeaderPairs"`
	// Present only if the value of a header is not UTF-8: for each pair, in its order, the value in base64, or `null`.
	HeadersBase64  []*string `json:"headers_base64,omitempty" ref:"HeadersBase64"`
	Body           string    `json:"body"`
	BodyEncoding   string    `json:"body_encoding" ref:"BodyEncoding"`
	ContentType    *string   `json:"content_type"`
	Method         string    `json:"method"`
	Query          string    `json:"query"`
	RemoteIP       *string   `json:"remote_ip"`
	IdempotencyKey *string   `json:"idempotency_key"`
	// The event of which this one is a duplicate.
	DuplicateOf *string `json:"duplicate_of"`
	// The OpenTelemetry trace of the event; `null`: it was not traced.
	TraceID           *string    `json:"trace_id"`
	ExpiresAt         web.Time   `json:"expires_at"`
	Deliveries        []Delivery `json:"deliveries"`
	AttemptsTruncated bool       `json:"attempts_truncated"`
	// Where the data does not match the newest schema of its type, if the endpoint has `validate`; `null`: nowhere.
	Mismatch *Mismatch `json:"mismatch"`
	Receipt  *Receipt  `json:"receipt"`
	// Only for an event that was sent through the API: its `data`.
	Data json.RawMessage `json:"data,omitempty" ref:"EventData"`
}

// PayloadErased is the response to an erasure, the same for the first call and every repeat.
type PayloadErased struct {
	ID              string   `json:"id" ref:"EventId"`
	Object          string   `json:"object" const:"event"`
	PayloadErasedAt web.Time `json:"payload_erased_at"`
}

// ReceiptResult is the response to a processing receipt: the receipt that is now in effect.
type ReceiptResult struct {
	EventID string `json:"event_id" ref:"EventId"`
	ReceiptFields
	// `false` if the event was already `processed` and this call reports another state; the receipt stays as it was.
	Applied bool `json:"applied"`
	// When the first receipt was reported; `null` while the store is behind.
	CreatedAt web.Time  `json:"created_at" nullable:"true"`
	UpdatedAt web.Time  `json:"updated_at"`
	Warnings  []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// EventSearch is a list of events. A search may end before its page is full; without one only data and next_cursor are
// there.
type EventSearch struct {
	List[EventRow]
	Partial  bool      `json:"partial,omitempty"`
	Scanned  int       `json:"scanned"` // rows that were compared for this page
	Warnings []Warning `json:"warnings,omitempty"`
}

// BatchItem is the result of one event of a batch: its id and status, or its error.
type BatchItem struct {
	Index  int            `json:"index" minimum:"0"`
	ID     string         `json:"id,omitempty" ref:"EventId"`
	Status event.Status   `json:"status,omitempty" ref:"EventStatus"`
	Error  *web.ErrorView `json:"error,omitempty" ref:"ErrorDetail"`
}

// EventBatchResult has the results of a batch, in its order.
type EventBatchResult struct {
	Data     []BatchItem `json:"data" maxItems:"1000"`
	Warnings []Warning   `json:"warnings,omitempty" ref:"Warnings"`
}

// StatusCounts counts events by their status.
type StatusCounts struct {
	Delivered int `json:"delivered" minimum:"0"`
	Failed    int `json:"failed" minimum:"0"`
	Retrying  int `json:"retrying" minimum:"0"`
	Pending   int `json:"pending" minimum:"0"`
	Skipped   int `json:"skipped" minimum:"0"`
	Rejected  int `json:"rejected" minimum:"0"`
}

// CountedStep has the events that were received in one step of time.
type CountedStep struct {
	At web.Time `json:"at"`
	StatusCounts
}

// CountedEvents is the response to GET /v1/events/counts.
type CountedEvents struct {
	Object string `json:"object" const:"event_counts"`
	// Events that were counted: the newest.
	Counted int `json:"counted" minimum:"0" maximum:"1000"`
	// Older events match, too.
	More     bool         `json:"more"`
	Statuses StatusCounts `json:"statuses"`
	// Length of a step of time.
	StepSeconds int64 `json:"step_seconds" minimum:"1"`
	// Steps with any event, oldest first.
	Steps []CountedStep `json:"steps" maxItems:"61"`
}

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

// Mismatch says where the data of an event does not match the schema of its type.
type Mismatch struct {
	// Of the schema.
	Version int `json:"version" minimum:"1"`
	// JSON Pointer (RFC 6901) into `data` of a sent event, or into the body of a received one.
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}
