package event

// Status is the state of a delivery, or of an event as derived from its deliveries.
type Status string

// Statuses. An event is never held: a held delivery makes it pending. Only an event can be rejected.
const (
	Pending   Status = "pending"
	Retrying  Status = "retrying"
	Held      Status = "held"
	Delivered Status = "delivered"
	Failed    Status = "failed"
	Skipped   Status = "skipped"
	Rejected  Status = "rejected"
)

// Terminal reports whether the status of a delivery is final: only a replay or a recovery job changes it.
func (s Status) Terminal() bool { return s == Delivered || s == Failed || s == Skipped }

// Reason explains a status. The set is closed; the API and the database use the same values.
type Reason string

// Reasons of rejected events.
const (
	SignatureMissing   Reason = "signature_missing"
	SignatureMalformed Reason = "signature_malformed"
	SignatureMismatch  Reason = "signature_mismatch"
	TimestampTolerance Reason = "timestamp_outside_tolerance"
	CertificateExpired Reason = "certificate_expired"
)

// Reasons of skipped events and deliveries.
const (
	NoDestination       Reason = "no_destination"
	Filtered            Reason = "filtered"
	Duplicate           Reason = "duplicate"
	DeliveryLoop        Reason = "delivery_loop"
	DestinationDisabled Reason = "destination_disabled"
	DestinationDeleted  Reason = "destination_deleted"
	EndpointDeleted     Reason = "endpoint_deleted"
	Superseded          Reason = "superseded"
	Purged              Reason = "purged"
	JobStopped          Reason = "job_stopped"
	JobCancelled        Reason = "job_cancelled"
	RunStopped          Reason = "run_stopped"
	Deadline            Reason = "deadline"
	Expired             Reason = "expired"           // its expires_at
	CancelledByRule     Reason = "cancelled_by_rule" // by an operation of the transformation
)

// AlreadyDelivered is why a recovery job skips a delivery that succeeded after the selection.
const AlreadyDelivered Reason = "already_delivered"

// Reasons of failed deliveries.
const (
	AttemptsExhausted Reason = "attempts_exhausted"
	NotRetryable      Reason = "not_retryable"
	Gone410           Reason = "gone_410"
	ReceiverAborted   Reason = "receiver_aborted"
	ReceiverDisabled  Reason = "receiver_disabled" // also of a destination
	PayloadExpired    Reason = "payload_expired"
	TooLarge          Reason = "too_large"
	TransformFailed   Reason = "transform_failed"
	Undecodable       Reason = "undecodable"
	OrderFull         Reason = "order_full" // its ordered destination has too many unfinished deliveries
)

// Reasons of pending deliveries.
const (
	Queued    Reason = "queued"
	Scheduled Reason = "scheduled" // until its deliver_at
	LaneFull  Reason = "lane_full"
	Paced     Reason = "paced"
)

// Reasons of held deliveries.
const (
	Manual      Reason = "manual"
	BreakerOpen Reason = "breaker_open"
	Behind      Reason = "behind"     // not at its turn in the order of its destination
	NotPulled   Reason = "not_pulled" // no consumer pulls its destination
)

// Trigger says why an attempt was made.
type Trigger string

// Triggers of attempts.
const (
	TriggerInitial  Trigger = "initial"
	TriggerRetry    Trigger = "retry"
	TriggerReplay   Trigger = "replay"
	TriggerRecovery Trigger = "recovery"
	TriggerCanary   Trigger = "canary"
	TriggerTest     Trigger = "test"
)

// ErrorCode classifies the failure of an attempt.
type ErrorCode string

// Error codes of attempts.
const (
	CodeHTTPStatus         ErrorCode = "http_status"
	CodeTimeout            ErrorCode = "timeout"
	CodeDNS                ErrorCode = "dns_error"
	CodeConnectionRefused  ErrorCode = "connection_refused"
	CodeConnectionReset    ErrorCode = "connection_reset"
	CodeNetworkUnreachable ErrorCode = "network_unreachable"
	CodeNetwork            ErrorCode = "network_error"
	CodeTLS                ErrorCode = "tls_error"
	CodeRedirectBlocked    ErrorCode = "redirect_blocked"
	CodeAddressBlocked     ErrorCode = "address_blocked"
	CodeResponseTooLarge   ErrorCode = "response_too_large"
	CodeToken              ErrorCode = "token_error"
	CodeAccessDenied       ErrorCode = "access_denied"
	CodeNotFound           ErrorCode = "not_found"
	CodeTooLarge           ErrorCode = "too_large"
	CodeRefused            ErrorCode = "refused"
	CodeNotAcknowledged    ErrorCode = "not_acknowledged" // within its lease, of a pulled destination
	CodeInternal           ErrorCode = "internal"
)
