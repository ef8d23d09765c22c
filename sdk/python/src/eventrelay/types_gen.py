# Code generated from the OpenAPI document by datamodel-code-generator. DO NOT EDIT.

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class Acknowledgement(TypedDict):
    """
    Acknowledgement is what became of an attempt.
    """

    attempt_id: str
    status: str
    """
    `acknowledged`: the event is delivered, now or before. `expired`: the lease had ended. `unknown`: the destination has no such lease, or it ended when its node stopped. Expired and unknown ones are delivered again, unless another attempt was acknowledged.
    """


AlertAddress: TypeAlias = str


AlertAddresses: TypeAlias = AlertAddress | list[AlertAddress]


class AlertAgeRule(TypedDict):
    enabled: bool
    seconds: int


class AlertAgeRuleInput(TypedDict):
    enabled: NotRequired[bool]
    seconds: NotRequired[int]


class Email(TypedDict):
    enabled: NotRequired[bool]
    """
    Default `true`.
    """
    to: NotRequired[AlertAddresses]


class AlertEmail(TypedDict):
    enabled: bool
    to: list[str]


class AlertFindingRule(TypedDict):
    enabled: bool
    min_severity: str


class AlertFindingRuleInput(TypedDict):
    enabled: NotRequired[bool]
    min_severity: NotRequired[Literal["low", "medium", "high", "critical"]]


class AlertProcessingRule(TypedDict):
    enabled: bool
    minutes: int
    """
    Fires when an event has no receipt this long after its delivery, in minutes.
    """


class AlertProcessingRuleInput(TypedDict):
    enabled: NotRequired[bool]
    minutes: NotRequired[int]
    """
    Fires when an event has no receipt this long after its delivery, in minutes.
    """


class AlertRateRule(TypedDict):
    enabled: bool
    min_attempts: int
    """
    With fewer attempts in the window the rule does not fire.
    """
    percent: int
    window_seconds: int


class AlertRateRuleInput(TypedDict):
    enabled: NotRequired[bool]
    min_attempts: NotRequired[int]
    """
    With fewer attempts in the window the rule does not fire.
    """
    percent: NotRequired[int]
    window_seconds: NotRequired[int]


class AlertRule(TypedDict):
    enabled: bool


class AlertRuleInput(TypedDict):
    enabled: NotRequired[bool]


class AlertSlack(TypedDict):
    enabled: bool
    webhook_url: str
    """
    Masked: `https://hooks.slack.com/****a1b2`.
    """


class AlertTestOutcome(TypedDict):
    """
    AlertTestOutcome is the outcome of the test of one channel.
    """

    channel: str
    duration_ms: int
    error: str | None
    """
    A value of an attempt's `error_code`, or one for mail such as `smtp_not_configured`.
    """
    http_status: int | None
    message: str | None
    ok: bool
    status: str
    """
    `skipped`: the channel is disabled.
    """
    target: str
    """
    Masked.
    """


class AlertThresholdRule(TypedDict):
    enabled: bool
    threshold: int


class AlertThresholdRuleInput(TypedDict):
    enabled: NotRequired[bool]
    threshold: NotRequired[int]


AlertURL: TypeAlias = str
"""
An https URL. Its mask leaves it unchanged.
"""


class AlertUsageRule(TypedDict):
    enabled: bool
    percent: list[int]
    """
    Percentages of the allowance at which it fires, ascending.
    """


PercentItem: TypeAlias = int


class AlertUsageRuleInput(TypedDict):
    enabled: NotRequired[bool]
    percent: NotRequired[list[PercentItem]]
    """
    Percentages of the allowance at which it fires, ascending.
    """


AlertValue: TypeAlias = Any


class AlertWebhook(TypedDict):
    enabled: bool
    secret: NotRequired[str]
    """
    Secret that signs the messages. Only in the response that created it.
    """
    secret_set: bool
    url: str
    """
    Masked.
    """


AnyJSON: TypeAlias = Any
"""
Any JSON.
"""


AttemptId: TypeAlias = str


class AttemptRequest(TypedDict):
    """
    AttemptRequest is the request of an attempt.
    """

    headers: dict[str, str]
    """
    Credentials are masked.
    """
    method: str
    url: str


class AuditActor(TypedDict):
    """
    AuditActor is who made a change.
    """

    id: str | None
    """
    Id of the key, the user or the portal link.
    """
    name: str | None
    """
    Name of the key, the user, or the part of the service, at that time.
    """
    type: str
    """
    `portal` is a person of a tenant in the portal; `operator` is someone who ran a `relay` command on a node; `system` is the service itself.
    """


class Auth(TypedDict):
    audience: NotRequired[str]
    """
    For oauth2_client_credentials: the parameter audience, if the token endpoint needs one.
    """
    certificate: NotRequired[str]
    """
    For mtls: the client certificate with its chain, in PEM form.
    """
    client_auth: NotRequired[str]
    """
    For oauth2_client_credentials: whether id and secret are sent in the header Authorization or in the body. Default header.
    """
    client_id: NotRequired[str]
    """
    For oauth2_client_credentials.
    """
    client_secret: NotRequired[str]
    """
    For oauth2_client_credentials. Masked in responses; its mask means unchanged.
    """
    key: NotRequired[str]
    """
    For mtls: the private key of the certificate, in PEM form. Masked in responses; its mask means unchanged.
    """
    password: NotRequired[str]
    """
    For basic. Masked in responses; its mask means unchanged.
    """
    scope: NotRequired[str]
    """
    For oauth2_client_credentials: the scopes, with spaces between them.
    """
    token_url: NotRequired[str]
    """
    For oauth2_client_credentials: the https URL of the token endpoint.
    """
    type: str
    """
    basic: user name and password (RFC 7617). oauth2_client_credentials: an access token from token_url (RFC 6749, 4.4), kept until it expires and renewed once when the destination answers 401. mtls: a client certificate. Required.
    """
    username: NotRequired[str]
    """
    For basic. Without a colon.
    """


class AuthInput(TypedDict):
    audience: NotRequired[str | None]
    """
    For oauth2_client_credentials: the parameter audience, if the token endpoint needs one.
    """
    certificate: NotRequired[str | None]
    """
    For mtls: the client certificate with its chain, in PEM form.
    """
    client_auth: NotRequired[Literal["header", "body"] | None]
    """
    For oauth2_client_credentials: whether id and secret are sent in the header Authorization or in the body. Default header.
    """
    client_id: NotRequired[str | None]
    """
    For oauth2_client_credentials.
    """
    client_secret: NotRequired[str | None]
    """
    For oauth2_client_credentials. Masked in responses; its mask means unchanged.
    """
    key: NotRequired[str | None]
    """
    For mtls: the private key of the certificate, in PEM form. Masked in responses; its mask means unchanged.
    """
    password: NotRequired[str | None]
    """
    For basic. Masked in responses; its mask means unchanged.
    """
    scope: NotRequired[str | None]
    """
    For oauth2_client_credentials: the scopes, with spaces between them.
    """
    token_url: NotRequired[str | None]
    """
    For oauth2_client_credentials: the https URL of the token endpoint.
    """
    type: NotRequired[Literal["basic", "oauth2_client_credentials", "mtls"]]
    """
    basic: user name and password (RFC 7617). oauth2_client_credentials: an access token from token_url (RFC 6749, 4.4), kept until it expires and renewed once when the destination answers 401. mtls: a client certificate. Required.
    """
    username: NotRequired[str | None]
    """
    For basic. Without a colon.
    """


BodyEncoding: TypeAlias = str


class Canary(TypedDict):
    """
    Canary counts the first deliveries, or the next ones if all of those were skipped. `delivered` and `failed` are theirs.
    """

    delivered: int
    failed: int
    total: int


class CatalogueSettingsInput(TypedDict):
    """
    CatalogueSettings say who may see the catalogue.
    """

    public: NotRequired[bool]
    """
    `true`: `/catalogue` and `/catalogue/openapi.json` show it to everybody, without internal types. Default `false`.
    """
    title: NotRequired[str]
    """
    Heading of the page and title of the document. Default: Webhooks.
    """


Change = TypedDict(
    "Change",
    {
        "after": str | None,
        "before": str | None,
        "change": str,
        "from": str | None,
        "pointer": str,
    },
)


DSNId: TypeAlias = str


AllowedOrigin: TypeAlias = str


class DSNInput(TypedDict):
    """
    DSN is what an application with the SDK sends its reports to.
    """

    allowed_origins: NotRequired[list[AllowedOrigin] | None]
    """
    Origins of the pages that may send reports, such as `https://app.example.com` or `https://*.example.com`. Only for `browser`; without any (`[]` or `null`), all pages may. It keeps out mistakes only: programs can send any origin.
    """
    daily_quota: NotRequired[int | None]
    """
    Reports of a UTC day that are accepted; `null` for no limit.
    """
    name: NotRequired[str]
    """
    Printable. Default is the end of its id.
    """
    platform: NotRequired[Literal["server", "browser"]]
    """
    Required for a new DSN, and then fixed. Use `browser` for whatever users can download.
    """


class DSNUpdate(TypedDict):
    """
    DSN is what an application with the SDK sends its reports to.
    """

    allowed_origins: NotRequired[list[AllowedOrigin] | None]
    """
    Origins of the pages that may send reports, such as `https://app.example.com` or `https://*.example.com`. Only for `browser`; without any (`[]` or `null`), all pages may. It keeps out mistakes only: programs can send any origin.
    """
    daily_quota: NotRequired[int | None]
    """
    Reports of a UTC day that are accepted; `null` for no limit.
    """
    name: NotRequired[str]
    """
    Printable. Default is the end of its id.
    """
    platform: NotRequired[Literal["server", "browser"]]
    """
    Required for a new DSN, and then fixed. Use `browser` for whatever users can download.
    """
    version: NotRequired[int]
    """
    Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`).
    """


class Dedup(TypedDict):
    key: str
    """
    What identifies the event: a path in the JSON body, or a header.
    """
    window_seconds: int
    """
    How long a key is remembered, in seconds. Default: a day.
    """


class DedupInput(TypedDict):
    key: str
    """
    What identifies the event: a path in the JSON body, or a header.
    """
    window_seconds: NotRequired[int]
    """
    How long a key is remembered, in seconds. Default: a day.
    """


class Deleted(TypedDict):
    """
    Deleted is the answer to DELETE.
    """

    deleted: Literal[True]
    id: str
    object: str


DeliverAt: TypeAlias = str
"""
When it is delivered, at most 30 days ahead and within the retention. Default, and if it has passed, at once.
"""


DeliveryId: TypeAlias = str


DestinationHeadersInput: TypeAlias = dict[str, str | None]
"""
Headers that are added to each delivery. Merged header by header: `null` removes one, the mask of its value leaves it unchanged; another mask of a credential is refused. A `User-Agent` replaces the service's own. Headers of the HTTP transport, `webhook-*` and `relay-*` cannot be set.
"""


DestinationId: TypeAlias = str


DestinationIds: TypeAlias = str | list[DestinationId]
"""
One, several separated by commas, or an array.
"""


class DestinationRequests(TypedDict):
    """
    DestinationRequests are the requests of the last hour to one destination.
    """

    delivered: int
    destination_id: str
    failed: int
    requests: int


DestinationURL: TypeAlias = str
"""
An https URL without user information and fragment. The host is a public name, the port 443 or 1024 to 65535.
Read-only keys and agent keys see query values, and path segments of 16 or more characters that are not plain
words, as `****` and the last four characters, or as `****` alone below 12 characters. If such a mask is sent
back, the URL stays unchanged.

"""


class DetectionRule(TypedDict):
    """
    DetectionRule is one of the account's own rules.
    """

    charset: str
    """
    Characters after the prefix. Default `alnum`: ASCII letters and digits. `word` adds `_`, `urlsafe` adds `-` and `_`, `base64` adds `+`, `/` and `=`.
    """
    docs_url: str | None
    """
    URL (https) of a page with instructions for a leaked key.
    """
    entropy: float
    """
    Minimum Shannon entropy of the characters after the prefix, in bits per character. Default 0.
    """
    id: str
    """
    Unique among your rules.
    """
    left: str
    """
    What must not precede the prefix. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset.
    """
    max: int
    """
    Maximum number of characters after the prefix. Default 128, the highest for `base64`, `token68` and `value`.
    """
    min: int
    """
    Minimum number of characters after the prefix. Default 16.
    """
    name: str
    """
    Printable. Shown with its findings.
    """
    prefixes: list[str]
    """
    Prefixes of the keys. All rules together have at most 150. A prefix begins with at most three other prefixes.
    """
    right: str
    """
    What must not follow the key. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset. With `any` a longer key is found by its first `max` characters.
    """
    severity: str
    """
    Severity of its findings, at most `high`. Default `medium`.
    """


Prefix: TypeAlias = str


class DetectionRuleInput(TypedDict):
    """
    DetectionRule is one of the account's own rules.
    """

    charset: NotRequired[
        Literal[
            "alnum",
            "base32",
            "base64",
            "client",
            "dash",
            "digit",
            "dotted",
            "hex",
            "letter",
            "lower",
            "lownum",
            "padded",
            "token68",
            "upnum",
            "upper",
            "urlsafe",
            "uuid",
            "value",
            "word",
        ]
    ]
    """
    Characters after the prefix. Default `alnum`: ASCII letters and digits. `word` adds `_`, `urlsafe` adds `-` and `_`, `base64` adds `+`, `/` and `=`.
    """
    docs_url: NotRequired[str | None]
    """
    URL (https) of a page with instructions for a leaked key.
    """
    entropy: NotRequired[float]
    """
    Minimum Shannon entropy of the characters after the prefix, in bits per character. Default 0.
    """
    id: str
    """
    Unique among your rules.
    """
    left: NotRequired[Literal["word", "charset"]]
    """
    What must not precede the prefix. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset.
    """
    max: NotRequired[int]
    """
    Maximum number of characters after the prefix. Default 128, the highest for `base64`, `token68` and `value`.
    """
    min: NotRequired[int]
    """
    Minimum number of characters after the prefix. Default 16.
    """
    name: str
    """
    Printable. Shown with its findings.
    """
    prefixes: list[Prefix]
    """
    Prefixes of the keys. All rules together have at most 150. A prefix begins with at most three other prefixes.
    """
    right: NotRequired[Literal["word", "charset", "any"]]
    """
    What must not follow the key. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset. With `any` a longer key is found by its first `max` characters.
    """
    severity: NotRequired[Literal["critical", "high", "medium", "low"]]
    """
    Severity of its findings, at most `high`. Default `medium`.
    """


class DetectionSettingsInput(TypedDict):
    """
    DetectionSettings are the account's own rules for secrets.
    """

    rules: NotRequired[list[DetectionRuleInput] | None]
    version: NotRequired[int]
    """
    Counts the changes; 0 before the first one. A change with another version than the current one is refused.
    """


DomainId: TypeAlias = str


class DomainInput(TypedDict):
    """
    Domain is a host name that you own or claim to own.
    """

    hostname: str
    """
    The host name alone, such as `www.example.com`. It is stored in lower-case ASCII.
    """


class DomainVerification(TypedDict):
    method: NotRequired[Literal["dns", "http"]]
    """
    Default is the method that has verified the domain, else `dns`.
    """


DrainId: TypeAlias = str


class DrainInput(TypedDict):
    """
    Drain is a log drain.
    """

    name: NotRequired[str]
    """
    Printable. Default is the end of its id.
    """
    platform: NotRequired[Literal["auto", "vercel", "heroku", "firehose", "cloudflare", "generic"]]
    """
    `auto`, the default, recognises the platform from each request and answers as it expects.
    """
    signing_secret: NotRequired[str | None]
    """
    The signature secret that Vercel shows. While it is set, the drain answers 403 to requests without a valid `x-vercel-signature`. Only for `auto` and `vercel`. It is never shown again; `null` removes it.
    """
    status: NotRequired[Literal["active", "paused"]]
    verify_code: NotRequired[str | None]
    """
    The code with which Vercel verifies the URL. Every answer has it as `x-vercel-verify`. `null` removes it.
    """


class DrainUpdate(TypedDict):
    """
    Drain is a log drain.
    """

    name: NotRequired[str]
    """
    Printable. Default is the end of its id.
    """
    platform: NotRequired[Literal["auto", "vercel", "heroku", "firehose", "cloudflare", "generic"]]
    """
    `auto`, the default, recognises the platform from each request and answers as it expects.
    """
    signing_secret: NotRequired[str | None]
    """
    The signature secret that Vercel shows. While it is set, the drain answers 403 to requests without a valid `x-vercel-signature`. Only for `auto` and `vercel`. It is never shown again; `null` removes it.
    """
    status: NotRequired[Literal["active", "paused"]]
    verify_code: NotRequired[str | None]
    """
    The code with which Vercel verifies the URL. Every answer has it as `x-vercel-verify`. `null` removes it.
    """
    version: NotRequired[int]
    """
    Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`).
    """


DryRun: TypeAlias = bool
"""
`true` counts the selection and queues nothing. Default `false`.
"""


class EndpointAlerts(TypedDict):
    """
    EndpointAlerts are the settings in which an endpoint differs from the account; `null` means as in the account.
    """

    channels: list[str] | None
    """
    Channels that get the endpoint's alerts: all if `null`, none if empty.
    """
    consecutive_failures: int | None
    enabled: bool
    """
    Default `true`.
    """
    failure_rate_percent: int | None
    muted_until: str | None
    """
    No alert of the endpoint fires until then. One that fires already stays, and its end is announced.
    """


class EndpointAlertsInput(TypedDict):
    """
    EndpointAlerts are the settings in which an endpoint differs from the account; `null` means as in the account.
    """

    channels: NotRequired[list[Literal["email", "slack", "webhook"]] | None]
    """
    Channels that get the endpoint's alerts: all if `null`, none if empty.
    """
    consecutive_failures: NotRequired[int | None]
    enabled: NotRequired[bool]
    """
    Default `true`.
    """
    failure_rate_percent: NotRequired[int | None]
    muted_until: NotRequired[str | None]
    """
    No alert of the endpoint fires until then. One that fires already stays, and its end is announced.
    """


AllowHeader: TypeAlias = str


class EndpointDay(TypedDict):
    """
    EndpointDay is what an endpoint has used on a day.
    """

    bytes: int
    date: str
    received: int
    sent: int
    total: int


EndpointId: TypeAlias = str


EndpointIds: TypeAlias = str | list[EndpointId]
"""
One, several separated by commas, or an array.
"""


class EndpointUsage(TypedDict):
    """
    EndpointUsage is what one endpoint has used.
    """

    bytes: int
    endpoint_id: EndpointId
    received: int
    sent: int
    total: int


class Entity(TypedDict):
    """
    Entity is what an audit entry is about.
    """

    id: str
    type: str


ErrorType: TypeAlias = str
"""
400 `invalid_request invalid_state idempotency_mismatch selection_too_large payload_too_large conflict`,
401 `authentication_required invalid_api_key`, 403 `insufficient_scope`, 404 `not_found`,
429 `rate_limited allowance_exceeded`, 500 `internal`, 503 `unavailable`, 504 `timeout`.

"""


class EventCounts(TypedDict):
    """
    EventCounts counts the deliveries of an event by their state.
    """

    delivered: int
    failed: int
    pending: int
    total: int


class EventData(TypedDict):
    pass


EventId: TypeAlias = str


EventReason: TypeAlias = str


EventSchema: TypeAlias = Any
"""
JSON Schema (2020-12) of at most 64 KiB: an object, a boolean, or null for none.
"""


EventStatus: TypeAlias = Literal["pending", "retrying", "delivered", "failed", "skipped", "rejected"]
"""
Derived from the deliveries, first match: `retrying` (one has failed and will be tried again), `pending` (one
was not tried yet), `failed` (one has failed for good), `delivered` (one was delivered), `skipped` (there was
nothing to deliver). `rejected`: the signature was not accepted, so nothing is delivered.

"""


EventStatuses: TypeAlias = str | list[EventStatus]
"""
One, several separated by commas, or an array.
"""


class EventTest(TypedDict):
    destination_id: NotRequired[str | None]
    """
    The one destination that gets it. Default: all enabled destinations. It is sent to a destination that is held, too; if it is delivered, the hold ends.
    """
    provider: NotRequired[
        Literal[
            "generic",
            "stripe",
            "github",
            "shopify",
            "slack",
            "twilio",
            "standard_webhooks",
            "hmac",
            "adyen",
            "airwallex",
            "bitbucket",
            "cal_com",
            "calendly",
            "chargebee",
            "clerk",
            "coinbase_commerce",
            "discord",
            "docusign",
            "figma",
            "gitlab",
            "hubspot",
            "intercom",
            "jira",
            "line",
            "linear",
            "liveblocks",
            "mailgun",
            "meta",
            "mux",
            "notion",
            "openai",
            "paddle",
            "pagerduty",
            "paypal",
            "postmark",
            "razorpay",
            "replicate",
            "resend",
            "sendgrid",
            "sentry",
            "sns",
            "square",
            "supabase",
            "svix",
            "telnyx",
            "twitch",
            "typeform",
            "vercel",
            "woocommerce",
            "workos",
            "xero",
            "zendesk",
            "zoom",
        ]
        | None
    ]
    """
    Provider whose event is imitated. Default: the endpoint's provider.
    """
    type: NotRequired[str | None]
    """
    Type of the event, as `SentType`. Default: the provider's most common type.
    """


EventTypeName: TypeAlias = str


class EventTypeSeen(TypedDict):
    """
    EventTypeSeen is a type of recent events.
    """

    events: int
    """
    Number of events with it among the newest 1,000.
    """
    known: bool
    """
    Whether the catalogue has it.
    """
    name: EventTypeName


EventType1: TypeAlias = str


EventTypes: TypeAlias = str | list[EventType1]
"""
One, several separated by commas, or an array. A star at the end matches a prefix (`order.*`).
"""


class EventTypesImported(TypedDict):
    """
    EventTypesImported is the result of an import.
    """

    created: int
    object: Literal["event_types_imported"]
    unchanged: int
    updated: int


class EventTypesSeen(TypedDict):
    """
    EventTypesSeen are the types of the newest 1,000 events.
    """

    object: Literal["event_types_seen"]
    types: list[EventTypeSeen]


EventValidation: TypeAlias = Literal["off", "warn", "reject"]


ExpiresAt: TypeAlias = str
"""
From then on no delivery of it is tried any more; it ends as skipped (`expired`). In the future, after `deliver_at`. Replays ignore it.
"""


class FailedFinding(TypedDict):
    """
    FailedFinding is a finding that was not updated.
    """

    id: str
    message: str
    type: str
    """
    The type of the error.
    """


class Failure(TypedDict):
    """
    Failure says which operation failed and where; index is null if the sample or the result is at fault.
    """

    index: int | None
    """
    The operation that failed; `null`: the sample or the result is at fault.
    """
    message: str
    pointer: str
    """
    JSON Pointer to the place; empty for the whole document.
    """


class Filter(TypedDict):
    body: NotRequired[dict[str, Any]]
    match: NotRequired[dict[str, Any]]
    types: NotRequired[list[str]]
    when: NotRequired[str]


class FilterInput(TypedDict):
    """
    Which events are delivered here: those that match all of these. `null`: all events.
    """

    body: NotRequired[dict[str, Any] | None]
    """
    Paths in the JSON body with the values that they must have. Replaced as a whole. A path is members and indexes of arrays with dots between them (`data.items.0.id`), optionally after `$.`. All other characters are literal; a path with `/`, `*` or `[` that looks like another syntax has a warning.
    """
    match: NotRequired[dict[str, Any] | None]
    """
    A pattern that the event must match: `body`, `headers` (lower-case names), `query`, `type` and `event` with the values that they must have, or operators. At most 8 KiB and 200 values.
    """
    types: NotRequired[list[str] | None]
    when: NotRequired[str | None]
    """
    A condition in CEL (the Common Expression Language) over `body`, `headers`, `query`, `type` and `event`. It does not hold for an event without a member that it reads; if it fails otherwise, the delivery ends `failed`, `transform_failed`.
    """


FilterTime: TypeAlias = str
"""
RFC 3339 with any offset, or a time to the minute. Without a zone it is UTC; a date alone is midnight UTC. Or how long ago: `15m`, `24h`, `7d`; `now`, `today` and `yesterday`, which begin at midnight UTC. An empty value counts as absent. A time that is told by how long ago it was moves on from page to page of a list.
"""


FilterType: TypeAlias = str


FilterTypes: TypeAlias = list[FilterType]


FilterValue: TypeAlias = str


FilterValues: TypeAlias = list[FilterValue]


class FindingChangeInput(TypedDict):
    """
    FindingChange is what a request changes of a finding; nil: nothing.
    """

    ignore_reason: NotRequired[Literal["false_positive", "used_in_tests", "accepted_risk"] | None]
    """
    Required when the finding becomes `ignored`.
    """
    ignore_until: NotRequired[str | None]
    """
    Only for an ignored finding: when it is opened again. `null` for never; a finding without `fingerprint` may hold several secrets and is opened again after a day at the latest.
    """
    note: NotRequired[str | None]
    """
    Keys in it are masked.
    """
    resolution: NotRequired[Literal["revoked", "removed", "false_positive"] | None]
    """
    Required when the finding becomes `resolved`.
    """
    status: NotRequired[Literal["open", "acknowledged", "resolved", "ignored"] | None]
    version: NotRequired[int | None]
    """
    The version that you have seen.
    """


FindingId: TypeAlias = str


Line: TypeAlias = int


FindingSeverity: TypeAlias = str


FindingSource: TypeAlias = str


class FindingsUpdate(TypedDict):
    drain_id: NotRequired[str | None]
    """
    Selects the findings that a drain saw first.
    """
    ids: NotRequired[list[str] | None]
    """
    Ids of findings; or `drain_id` and `rule`.
    """
    ignore_reason: NotRequired[Literal["false_positive", "used_in_tests", "accepted_risk"] | None]
    """
    Required for `ignored`.
    """
    ignore_until: NotRequired[str | None]
    """
    Only for `ignored`: when they are opened again. See the update of one finding.
    """
    note: NotRequired[str | None]
    """
    Keys in it are masked.
    """
    resolution: NotRequired[Literal["revoked", "removed", "false_positive"] | None]
    """
    Required for `resolved`.
    """
    rule: NotRequired[str | None]
    """
    Required together with `drain_id`.
    """
    status: Literal["open", "acknowledged", "resolved", "ignored"]
    version: NotRequired[int | None]
    """
    With one id only: the version that you have seen. If the finding has another one and is not as it should become already, it is among `failed` with the type `conflict`.
    """


class FindingsUpdated(TypedDict):
    """
    FindingsUpdated counts the findings that a bulk update has changed.
    """

    failed: list[FailedFinding]
    more: bool
    """
    There are more findings of the drain and rule. Send the call again.
    """
    object: Literal["findings_update"]
    unchanged: int
    """
    Findings that already had the requested state.
    """
    updated: int


FixtureExpiry: TypeAlias = str


FixtureId: TypeAlias = str


class HTTPBatch(TypedDict):
    flush_seconds: int
    """
    How long events gather in a batch, in seconds. Default 2.
    """
    max_bytes: int
    """
    Largest body of a request. A larger event fails as too_large. Default 1048576.
    """
    max_events: int
    """
    A batch leaves when it has so many events. Default 100.
    """


class HTTPBatchInput(TypedDict):
    flush_seconds: NotRequired[int]
    """
    How long events gather in a batch, in seconds. Default 2.
    """
    max_bytes: NotRequired[int]
    """
    Largest body of a request. A larger event fails as too_large. Default 1048576.
    """
    max_events: NotRequired[int]
    """
    A batch leaves when it has so many events. Default 100.
    """


class Header(TypedDict):
    """
    Header is a header that the verification reads, with its values as received.
    """

    name: str
    values: list[str]


HeaderPairs: TypeAlias = list[list[str]]


HeadersBase64: TypeAlias = list[str | None]
"""
Only present if the value of a header is not UTF-8: for each pair, in its order, the bytes of the value in base64,
or `null` if the value is UTF-8.

"""


class Health(TypedDict):
    status: Literal["ok"]


class IngestLimit(TypedDict):
    bytes_per_second: int | None
    """
    Bytes of bodies per second. A body above the limit is accepted after a second without other events.
    """
    events_per_second: int | None


class IngestLimitCreate1(TypedDict):
    bytes_per_second: NotRequired[int | None]
    events_per_second: int


class IngestLimitCreate2(TypedDict):
    bytes_per_second: int


IngestLimitCreate: TypeAlias = IngestLimitCreate1 | IngestLimitCreate2


class IngestLimitInput(TypedDict):
    bytes_per_second: NotRequired[int | None]
    """
    Bytes of bodies per second. A body above the limit is accepted after a second without other events.
    """
    events_per_second: NotRequired[int | None]


InputTime: TypeAlias = str
"""
RFC 3339 with any offset. Without a zone it is UTC; a date alone is midnight UTC.
"""


IssueId: TypeAlias = str


class IssueInput(TypedDict):
    """
    Issue is what failed at one destination for one cause.
    """

    assignee: NotRequired[str]
    """
    Who takes care of it. Default: empty.
    """
    note: NotRequired[str]
    status: NotRequired[Literal["open", "acknowledged", "resolved"]]
    """
    A resolved issue opens again with the next failure. One whose destination was deleted, or works again an hour after the last failure, is resolved by the service.
    """


class Kafka(TypedDict):
    brokers: list[str]
    """
    Addresses of brokers as host:port; the others are found by them. Required.
    """
    ca: NotRequired[str]
    """
    Root certificates of the brokers in PEM form, beside those that the relay trusts.
    """
    compression: str
    """
    Compression of the records. Default none.
    """
    key: str
    """
    Key of the records: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Records with the same key go to the same partition. Default event_id.
    """
    max_record_bytes: int
    """
    The topic's max.message.bytes. A larger event fails as too_large. Default 1000000.
    """
    password: NotRequired[str]
    """
    For sasl. Masked in responses; its mask means unchanged.
    """
    plaintext: bool
    """
    Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false.
    """
    sasl: NotRequired[str]
    """
    Mechanism of user name and password. Default none.
    """
    topic: str
    """
    The topic, which must exist. Required.
    """
    username: NotRequired[str]
    """
    For sasl.
    """


Broker: TypeAlias = str


class KafkaInput(TypedDict):
    brokers: NotRequired[list[Broker]]
    """
    Addresses of brokers as host:port; the others are found by them. Required.
    """
    ca: NotRequired[str | None]
    """
    Root certificates of the brokers in PEM form, beside those that the relay trusts.
    """
    compression: NotRequired[Literal["none", "gzip", "snappy", "lz4", "zstd"]]
    """
    Compression of the records. Default none.
    """
    key: NotRequired[str]
    """
    Key of the records: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Records with the same key go to the same partition. Default event_id.
    """
    max_record_bytes: NotRequired[int]
    """
    The topic's max.message.bytes. A larger event fails as too_large. Default 1000000.
    """
    password: NotRequired[str | None]
    """
    For sasl. Masked in responses; its mask means unchanged.
    """
    plaintext: NotRequired[bool]
    """
    Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false.
    """
    sasl: NotRequired[Literal["plain", "scram-sha-256", "scram-sha-512"] | None]
    """
    Mechanism of user name and password. Default none.
    """
    topic: NotRequired[str]
    """
    The topic, which must exist. Required.
    """
    username: NotRequired[str | None]
    """
    For sasl.
    """


class KafkaSource(TypedDict):
    brokers: list[str]
    """
    Addresses of brokers as host:port; the others are found by them. Required.
    """
    ca: NotRequired[str]
    """
    Root certificates of the brokers in PEM form, beside those that the relay trusts.
    """
    group: str
    """
    The consumer group in which the relay commits how far it has read. No other program may use it. Default eventrelay- and the id of the endpoint.
    """
    password: NotRequired[str]
    """
    For sasl. Masked in responses; its mask means unchanged.
    """
    plaintext: bool
    """
    Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false.
    """
    sasl: NotRequired[str]
    """
    Mechanism of user name and password. Default none.
    """
    start: str
    """
    Where to begin if the group has no position: with the oldest record, or with those that come. Default latest.
    """
    topic: str
    """
    The topic, which must exist. Required.
    """
    username: NotRequired[str]
    """
    For sasl. It needs the rights to read the topic and the group.
    """


class KafkaSourceInput(TypedDict):
    brokers: NotRequired[list[Broker]]
    """
    Addresses of brokers as host:port; the others are found by them. Required.
    """
    ca: NotRequired[str | None]
    """
    Root certificates of the brokers in PEM form, beside those that the relay trusts.
    """
    group: NotRequired[str]
    """
    The consumer group in which the relay commits how far it has read. No other program may use it. Default eventrelay- and the id of the endpoint.
    """
    password: NotRequired[str | None]
    """
    For sasl. Masked in responses; its mask means unchanged.
    """
    plaintext: NotRequired[bool]
    """
    Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false.
    """
    sasl: NotRequired[Literal["plain", "scram-sha-256", "scram-sha-512"] | None]
    """
    Mechanism of user name and password. Default none.
    """
    start: NotRequired[Literal["earliest", "latest"]]
    """
    Where to begin if the group has no position: with the oldest record, or with those that come. Default latest.
    """
    topic: NotRequired[str]
    """
    The topic, which must exist. Required.
    """
    username: NotRequired[str | None]
    """
    For sasl. It needs the rights to read the topic and the group.
    """


KeyId: TypeAlias = str


class Key(TypedDict):
    alg: Literal["EdDSA"]
    crv: Literal["Ed25519"]
    kid: str
    """
    The thumbprint of the key (RFC 7638).
    """
    kty: Literal["OKP"]
    use: Literal["sig"]
    x: str
    """
    The public key in base64url.
    """


class KeySet(TypedDict):
    keys: list[Key]


class Latency(TypedDict):
    """
    Latency has quantiles of the durations of requests in milliseconds; `null` without requests.
    """

    p50: int
    p95: int
    p99: int


LinkId: TypeAlias = str


class MeasuredRequests(TypedDict):
    """
    MeasuredRequests counts requests to destinations. A delivery that is retried has several.
    """

    delivered: int
    """
    Requests that succeeded.
    """
    failed: int
    """
    Requests that failed.
    """
    first_attempts: int
    """
    First attempts of automatic deliveries.
    """
    first_attempts_delivered: int
    """
    Those of them that succeeded.
    """
    latency_ms: Latency | None
    """
    Quantiles of the durations of the requests; `null` without requests.
    """
    requests: int


MetadataInput: TypeAlias = dict[str, str | None]
"""
Your own key-value pairs. Merged key by key; `null` removes a key.
"""


class Mismatch(TypedDict):
    """
    Mismatch says where the data of an event does not match the schema of its type.
    """

    message: str
    pointer: str
    """
    JSON Pointer (RFC 6901) into `data` of a sent event, or into the body of a received one.
    """
    version: int
    """
    Of the schema.
    """


NextCursor: TypeAlias = str
"""
Send it as `cursor` to get the next page. Absent on the last page.
"""


OneOrMoreItem: TypeAlias = str


OneOrMore: TypeAlias = str | list[OneOrMoreItem]
"""
One value, several separated by commas, or an array of values.
"""


OnlyUndelivered: TypeAlias = bool
"""
`true` sends to no destination that has the event, or that it is still on its way to. Default `false`.
"""


class OpenAPIDocument(TypedDict):
    info: NotRequired[dict[str, Any]]
    openapi: str
    servers: NotRequired[list[dict[str, Any]]]
    tags: NotRequired[list[dict[str, Any]]]
    webhooks: dict[str, Any]


class Ordering(TypedDict):
    by: str
    """
    Which events are delivered one after the other: all of the endpoint, or those with the same value at a path of the JSON body or in a header. Events without a value have no order. Required.
    """
    unverified: NotRequired[str]
    """
    unordered: they are delivered at once and hold up none, so that a stranger who knows ingest_url cannot stop the others with an event that fails. ordered: they have the order of all others. Events that are sent through the API count as verified. Default unordered. Without this member the order is older than it: all events are ordered but those whose verification failed.
    """
    when_failed: NotRequired[str]
    """
    block: those behind it wait until a replay or a recovery job has delivered it, or until this is skip. skip: the next one is delivered. Default block.
    """


class OrderingInput(TypedDict):
    by: NotRequired[str]
    """
    Which events are delivered one after the other: all of the endpoint, or those with the same value at a path of the JSON body or in a header. Events without a value have no order. Required.
    """
    unverified: NotRequired[Literal["unordered", "ordered"] | None]
    """
    unordered: they are delivered at once and hold up none, so that a stranger who knows ingest_url cannot stop the others with an event that fails. ordered: they have the order of all others. Events that are sent through the API count as verified. Default unordered. Without this member the order is older than it: all events are ordered but those whose verification failed.
    """
    when_failed: NotRequired[Literal["block", "skip"] | None]
    """
    block: those behind it wait until a replay or a recovery job has delivered it, or until this is skip. skip: the next one is delivered. Default block.
    """


class Overage(TypedDict):
    """
    Overage counts what exceeds the allowance.
    """

    events: int
    """
    Events above the allowance.
    """


PastTime: TypeAlias = str
"""
RFC 3339 with any offset, or a time to the minute. Without a zone it is UTC; a date alone is midnight UTC. Or how long ago: `15m`, `24h`, `7d`; `now`, `today` and `yesterday`, which begin at midnight UTC.
"""


class PortalLinkInput(TypedDict):
    """
    PortalLink is a link to the pages of a tenant, and then the session of who has opened it.
    """

    can: NotRequired[list[Literal["view", "destinations", "secrets", "replay", "test"]]]
    """
    What the person may do: `view` destinations, events and attempts; change `destinations`; see and rotate signing `secrets`; `replay` events; send `test` events. `view` is always included. Default `view`.
    """
    expires_seconds: NotRequired[int]
    """
    How long the link can be opened. Default 600, ten minutes.
    """
    lang: NotRequired[Literal["en", "de", "fr", "es", "ja"] | None]
    """
    Language of the pages. Default `null`: the first that the browser asks for and the portal has, else English.
    """
    refresh_url: NotRequired[str | None]
    """
    Page of your application that creates the next link and leads to it. The portal opens it when the session has ended. Its origin must be in RELAY_PORTAL_ORIGINS.
    """
    return_url: NotRequired[str | None]
    """
    Page of your application that the portal leads back to. Its origin must be in RELAY_PORTAL_ORIGINS.
    """
    session_seconds: NotRequired[int]
    """
    How long the session lasts once the link is opened. Default 3600, an hour.
    """
    theme: NotRequired[Literal["auto", "light", "dark"]]
    """
    `light` or `dark` pages; `auto`: as the browser prefers. `?theme=` at the end of `url` overrides it. Default `auto`.
    """
    use: NotRequired[Literal["pages", "api"]]
    """
    `pages`: the link leads to the pages of the portal. `api`: the answer has a `token`, with which pages of RELAY_PORTAL_ORIGINS call the API: as the pages of the portal would, with the same rights, for `session_seconds`. Default `pages`.
    """


class Projection(TypedDict):
    """
    Projection is the expected usage at the end of the period.
    """

    confidence: str
    """
    `low` in the first 24 hours of a period, or of the account.
    """
    currency: str | None
    events: int
    method: str
    """
    `last_7_days`: the usage so far, plus the rate of the last seven days for the rest of the period.
    """
    overage_amount: int | None
    """
    In minor units of the currency; `null` if there is no price.
    """
    overage_events: int


class Pull(TypedDict):
    lease_seconds: int
    """
    How long a consumer has to acknowledge an event that it has pulled, in seconds. Then the attempt has failed (not_acknowledged), and the event is delivered again. Default 60.
    """


class PullInput(TypedDict):
    lease_seconds: NotRequired[int]
    """
    How long a consumer has to acknowledge an event that it has pulled, in seconds. Then the attempt has failed (not_acknowledged), and the event is delivered again. Default 60.
    """


class RateLimit(TypedDict):
    burst: int
    """
    Deliveries that may be made at once after a pause. Default: the deliveries of one second, at least 1.
    """
    per_second: float
    """
    Deliveries per second. Required if there is no limit yet.
    """


class RateLimitInput(TypedDict):
    burst: NotRequired[int]
    """
    Deliveries that may be made at once after a pause. Default: the deliveries of one second, at least 1.
    """
    per_second: NotRequired[float]
    """
    Deliveries per second. Required if there is no limit yet.
    """


class Check(TypedDict):
    name: str
    ok: bool
    required: NotRequired[bool]
    """
    Whether the node is not ready while this check fails.
    """


class Readiness(TypedDict):
    checks: list[Check]
    status: Literal["ready", "not ready"]


ReceiptDetails: TypeAlias = Any


class ReceiptReport(TypedDict):
    details: NotRequired[Any | None]
    """
    A text of at most 2 KiB, or an object of at most 4 KiB and a nesting depth of 5. Do not send secrets or personal data: a secret is refused, and `warnings` name personal data.
    """
    reference: NotRequired[str | None]
    """
    Your own reference, such as a job id. Do not send secrets or personal data: a secret is refused, and `warnings` name personal data.
    """
    state: Literal["processing", "processed", "failed"]


class ReconcileCounts(TypedDict):
    """
    ReconcileCounts are what looks have found.
    """

    asked: int
    """
    Of them that the provider was asked to deliver again.
    """
    found: int
    """
    Events that the provider could not deliver. Those of Stripe may have failed at another webhook of the account.
    """
    given_up: int
    """
    Of them that it was asked for five times, and that failed again.
    """
    stored: int
    """
    Of them fetched and stored as new events.
    """


Type: TypeAlias = str


class ReconcileInput(TypedDict):
    api_url: NotRequired[str]
    """
    For GitHub Enterprise Server: https://HOST/api/v3. Default: that of the provider.
    """
    credential: NotRequired[str]
    """
    Of the provider's API: a restricted key of Stripe with Events: Read, or a token of GitHub with Webhooks: Read and write. Masked in responses; its mask means unchanged. Required.
    """
    every_seconds: NotRequired[int]
    """
    Seconds between two looks. Default 300.
    """
    hook: NotRequired[str | None]
    """
    For github: the webhook as its API names it, repos/OWNER/REPO/hooks/ID or orgs/ORG/hooks/ID. Required there.
    """
    since: NotRequired[str | None]
    """
    RFC 3339 with any offset. Without a zone it is UTC; a date alone is midnight UTC.
    """
    types: NotRequired[list[Type]]
    """
    Only events of these types, as the provider names them. Default: all.
    """


class Reconciliation(TypedDict):
    """
    Reconciliation is how an endpoint is reconciled with its provider.
    """

    at: str | None
    """
    When the last look ended.
    """
    endpoint_id: str
    error: str | None
    """
    Why the last look failed, in words that name what a person can change.
    """
    failed_in_a_row: int
    """
    Looks that failed in a row.
    """
    last: ReconcileCounts
    next_at: str | None
    """
    When the next one begins.
    """
    object: Literal["reconciliation"]
    provider: str
    since: str | None
    """
    How far back the last look went.
    """
    total: ReconcileCounts


class RecoveryAction(TypedDict):
    action: Literal["canary", "continue", "cancel"]
    state: NotRequired[
        Literal[
            "preparing",
            "ready",
            "canary_running",
            "awaiting_approval",
            "running",
            "completed",
            "stopped",
            "cancelled",
            "expired",
            "failed",
        ]
        | None
    ]
    """
    The state in which you have seen the job. If it is in another one, the answer is 400 `conflict`, unless the action is in effect already.
    """


class RecoveryDestination(TypedDict):
    """
    RecoveryDestination counts the deliveries of a job to one destination.
    """

    failed: int
    id: str
    top_error: str | None
    """
    The most frequent error code of its failed deliveries.
    """
    total: int


RecoveryId: TypeAlias = str


class RecoveryInput(TypedDict):
    destination_id: NotRequired[str | None]
    """
    An enabled destination. Default: all destinations of the endpoint.
    """
    endpoint_id: EndpointId
    rate_per_second: int
    """
    Deliveries per second.
    """
    since: PastTime


RecoveryItemState: TypeAlias = str


RecoveryState: TypeAlias = str


class Redaction(TypedDict):
    pointer: str
    """
    Into the sanitised body. For JSON within a string, that of the string.
    """
    reason: str
    """
    `named`: the name of a member around it announces something sensitive.
    """
    type: Literal["string", "number"]


class ReplayAtTop(TypedDict):
    destination_id: NotRequired[DestinationIds]
    dry_run: NotRequired[DryRun]
    endpoint_id: NotRequired[EndpointIds]
    only_undelivered: NotRequired[OnlyUndelivered]
    rate_per_second: NotRequired[int | None]
    """
    Deliveries per second. The call does not wait for them. Default `50`.
    """
    since: PastTime
    status: NotRequired[EventStatuses]
    tenant: NotRequired[OneOrMore]
    type: NotRequired[EventTypes]
    until: NotRequired[str | None]
    """
    Exclusive. Default: now. Also: `to`, `end`.
    """


class Filter1(TypedDict):
    destination_id: NotRequired[DestinationIds]
    endpoint_id: NotRequired[EndpointIds]
    since: PastTime
    status: NotRequired[EventStatuses]
    tenant: NotRequired[OneOrMore]
    type: NotRequired[EventTypes]
    until: NotRequired[str | None]
    """
    RFC 3339 with any offset, or a time to the minute. Without a zone it is UTC; a date alone is midnight UTC. Or how long ago: `15m`, `24h`, `7d`; `now`, `today` and `yesterday`, which begin at midnight UTC.
    """


class ReplayInFilter(TypedDict):
    dry_run: NotRequired[DryRun]
    filter: Filter1
    only_undelivered: NotRequired[OnlyUndelivered]
    rate_per_second: NotRequired[int | None]
    """
    Deliveries per second. The call does not wait for them. Default `50`.
    """


ReplayRate: TypeAlias = int
"""
Deliveries per second. The call does not wait for them. Default `50`.
"""


class ReplayRunFilter(TypedDict):
    destination_id: NotRequired[OneOrMore]
    endpoint_id: NotRequired[OneOrMore]
    event_id: NotRequired[str]
    """
    Only for the replay of a single event.
    """
    only_undelivered: NotRequired[bool]
    """
    `true` if the replay asked for it.
    """
    status: NotRequired[OneOrMore]
    type: NotRequired[OneOrMore]


ReplayRunState: TypeAlias = str
"""
`interrupted`: the run stopped half-way; what it had queued is delivered. `cancelled`: somebody cancelled it;
what was not sent is skipped.

"""


class Filter2(TypedDict):
    destination_id: NotRequired[DestinationIds]
    endpoint_id: NotRequired[EndpointIds]
    status: NotRequired[EventStatuses]
    tenant: NotRequired[OneOrMore]
    type: NotRequired[EventTypes]


class ReplayTimesBeside(TypedDict):
    dry_run: NotRequired[DryRun]
    filter: Filter2
    only_undelivered: NotRequired[OnlyUndelivered]
    rate_per_second: NotRequired[int | None]
    """
    Deliveries per second. The call does not wait for them. Default `50`.
    """
    since: PastTime
    until: NotRequired[str | None]
    """
    RFC 3339 with any offset, or a time to the minute. Without a zone it is UTC; a date alone is midnight UTC. Or how long ago: `15m`, `24h`, `7d`; `now`, `today` and `yesterday`, which begin at midnight UTC.
    """


class RequiredField(TypedDict):
    equals: NotRequired[Any]
    """
    The exact value, any JSON of at most 4 KiB. The runner compares numbers by their value with all their digits: 1, 1.0 and 1e0 are equal, and so are 0 and -0.
    """
    pointer: str
    """
    JSON Pointer (RFC 6901), such as `/data/id`.
    """
    type: NotRequired[Literal["string", "number", "boolean", "object", "array", "null"] | None]


class Response(TypedDict):
    body: str
    content_type: str
    """
    Default application/json.
    """
    status: int
    """
    Default 200.
    """


class ResponseInput(TypedDict):
    body: NotRequired[str]
    content_type: NotRequired[Literal["application/json", "text/plain", "text/xml", "application/xml"]]
    """
    Default application/json.
    """
    status: NotRequired[int]
    """
    Default 200.
    """


class RetryPolicy(TypedDict):
    initial_seconds: NotRequired[int]
    """
    First delay in seconds. For exponential. Default 5.
    """
    interval_seconds: NotRequired[int]
    """
    Delay in seconds. For linear, required.
    """
    jitter: float
    """
    Random share by which a delay varies; 0.1 is up to 10 %. Default `0.1`.
    """
    max_attempts: int
    """
    Attempts in total, including the first one. Default `10`.
    """
    max_retry_after_seconds: int
    """
    Longest Retry-After that is followed, in seconds. Default `86400`.
    """
    max_seconds: NotRequired[int]
    """
    Longest delay in seconds. For exponential. Default 43200.
    """
    multiplier: NotRequired[float]
    """
    Growth of the delay. For exponential. Default 2.
    """
    respect_retry_after: bool
    """
    Whether Retry-After of a response delays the retry. Default `true`.
    """
    retry_on: list[str]
    """
    Further statuses to retry: 3xx, 4xx or a status such as 404. Network errors, timeouts, 408, 409, 425, 429 and 5xx are always retried.
    """
    schedule_seconds: NotRequired[list[int]]
    """
    Delays between attempts in seconds. The last one repeats. For schedule.
    """
    strategy: str
    """
    Default schedule.
    """


RetryOnItem: TypeAlias = str


ScheduleSecond: TypeAlias = int


class RetryPolicyInput(TypedDict):
    initial_seconds: NotRequired[int]
    """
    First delay in seconds. For exponential. Default 5.
    """
    interval_seconds: NotRequired[int]
    """
    Delay in seconds. For linear, required.
    """
    jitter: NotRequired[float]
    """
    Random share by which a delay varies; 0.1 is up to 10 %. Default `0.1`.
    """
    max_attempts: NotRequired[int]
    """
    Attempts in total, including the first one. Default `10`.
    """
    max_retry_after_seconds: NotRequired[int]
    """
    Longest Retry-After that is followed, in seconds. Default `86400`.
    """
    max_seconds: NotRequired[int]
    """
    Longest delay in seconds. For exponential. Default 43200.
    """
    multiplier: NotRequired[float]
    """
    Growth of the delay. For exponential. Default 2.
    """
    respect_retry_after: NotRequired[bool]
    """
    Whether Retry-After of a response delays the retry. Default `true`.
    """
    retry_on: NotRequired[list[RetryOnItem]]
    """
    Further statuses to retry: 3xx, 4xx or a status such as 404. Network errors, timeouts, 408, 409, 425, 429 and 5xx are always retried.
    """
    schedule_seconds: NotRequired[list[ScheduleSecond]]
    """
    Delays between attempts in seconds. The last one repeats. For schedule.
    """
    strategy: NotRequired[Literal["schedule", "exponential", "linear", "none"]]
    """
    Default schedule.
    """


RunId: TypeAlias = str


class S3(TypedDict):
    access_key_id: str
    """
    Requests are signed with it (SigV4). It needs the right s3:PutObject. Required.
    """
    bucket: str
    """
    The bucket, which must exist. Required.
    """
    endpoint: NotRequired[str]
    """
    https URL of the store, without a path. Default: Amazon S3 in that region.
    """
    flush_bytes: int
    """
    An object is stored earlier when it has this size. Default 4194304.
    """
    flush_seconds: int
    """
    How long events gather in an object, in seconds. Default 2.
    """
    key: str
    """
    Template of the names, with the placeholders {date}, {hour}, {endpoint_id} and {id}, which it must have. Default {date}/{hour}/{id}.ndjson.
    """
    region: str
    """
    The region of the bucket. Required.
    """
    secret_access_key: str
    """
    Required. Masked in responses; its mask means unchanged.
    """


class S3Input(TypedDict):
    access_key_id: NotRequired[str]
    """
    Requests are signed with it (SigV4). It needs the right s3:PutObject. Required.
    """
    bucket: NotRequired[str]
    """
    The bucket, which must exist. Required.
    """
    endpoint: NotRequired[str | None]
    """
    https URL of the store, without a path. Default: Amazon S3 in that region.
    """
    flush_bytes: NotRequired[int]
    """
    An object is stored earlier when it has this size. Default 4194304.
    """
    flush_seconds: NotRequired[int]
    """
    How long events gather in an object, in seconds. Default 2.
    """
    key: NotRequired[str]
    """
    Template of the names, with the placeholders {date}, {hour}, {endpoint_id} and {id}, which it must have. Default {date}/{hour}/{id}.ndjson.
    """
    region: NotRequired[str]
    """
    The region of the bucket. Required.
    """
    secret_access_key: NotRequired[str]
    """
    Required. Masked in responses; its mask means unchanged.
    """


class SQS(TypedDict):
    access_key_id: str
    """
    Requests are signed with it (SigV4). It needs the right sqs:SendMessage. Required.
    """
    group: str
    """
    Group of the messages, whose order a FIFO queue keeps: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Default none, of a FIFO queue endpoint_id.
    """
    queue_url: str
    """
    https URL of the queue, which must exist. Required.
    """
    region: NotRequired[str]
    """
    The region of the queue. Default: that of queue_url.
    """
    secret_access_key: str
    """
    Required. Masked in responses; its mask means unchanged.
    """


class SQSInput(TypedDict):
    access_key_id: NotRequired[str]
    """
    Requests are signed with it (SigV4). It needs the right sqs:SendMessage. Required.
    """
    group: NotRequired[str]
    """
    Group of the messages, whose order a FIFO queue keeps: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Default none, of a FIFO queue endpoint_id.
    """
    queue_url: NotRequired[str]
    """
    https URL of the queue, which must exist. Required.
    """
    region: NotRequired[str | None]
    """
    The region of the queue. Default: that of queue_url.
    """
    secret_access_key: NotRequired[str]
    """
    Required. Masked in responses; its mask means unchanged.
    """


ScanId: TypeAlias = str


class ScanInput(TypedDict):
    """
    Scan is one search of a website for leaked keys and exposed files.
    """

    domain_id: DomainId


ScanPayloads: TypeAlias = bool


class ScanSkipped(TypedDict):
    """
    ScanSkipped is something that a scan has not looked at.
    """

    path: str
    reason: str


class SecretResult(TypedDict):
    """
    SecretResult compares a signature with one of the secrets.
    """

    expected_prefix: str | None
    """
    The first 8 characters of the signature that the secret makes.
    """
    last4: str | None
    matches: bool


SentType: TypeAlias = str
"""
Text of at most 128 bytes without spaces and characters that cannot be seen.
"""


class SignatureFinding(TypedDict):
    """
    SignatureFinding is something that the explanation of a signature has noticed.
    """

    code: str
    message: str
    """
    What is probably wrong and what to change, in one sentence.
    """


class SigningScheme(TypedDict):
    algorithm: NotRequired[str]
    """
    For template: the hash of the HMAC. Default sha256.
    """
    encoding: NotRequired[str]
    """
    For template: how the signature is written. Default hex.
    """
    header: NotRequired[str]
    """
    For template: the header with the signature. Required there.
    """
    secret: NotRequired[str]
    """
    For template: the bytes of the text are the key, which rotate_secret does not change. Default: the text of the destination's secret, whsec_ included. Masked in responses; its mask means unchanged.
    """
    signed_content: NotRequired[str]
    """
    For template: what is signed, with {body} once, and {id}, {timestamp} (Unix time in seconds) and {url}. Default {body}.
    """
    type: str
    """
    standard_webhooks: webhook-id, webhook-timestamp and webhook-signature (Standard Webhooks 1.0.0). svix: svix-id, svix-timestamp and svix-signature beside these. template: an HMAC in a header of your choice. Required.
    """
    value: NotRequired[str]
    """
    For template: with {signature} or {signatures} once, and {id} and {timestamp}. {signature}: during the overlap of a rotation the part between commas is repeated for the older secret; without a comma only the newest secret signs. {signatures}: those of both secrets with a comma between them. Default {signature}.
    """


class SigningSchemeInput(TypedDict):
    algorithm: NotRequired[Literal["sha256", "sha1", "sha512"] | None]
    """
    For template: the hash of the HMAC. Default sha256.
    """
    encoding: NotRequired[Literal["hex", "base64"] | None]
    """
    For template: how the signature is written. Default hex.
    """
    header: NotRequired[str | None]
    """
    For template: the header with the signature. Required there.
    """
    secret: NotRequired[str | None]
    """
    For template: the bytes of the text are the key, which rotate_secret does not change. Default: the text of the destination's secret, whsec_ included. Masked in responses; its mask means unchanged.
    """
    signed_content: NotRequired[str | None]
    """
    For template: what is signed, with {body} once, and {id}, {timestamp} (Unix time in seconds) and {url}. Default {body}.
    """
    type: NotRequired[Literal["standard_webhooks", "svix", "template"]]
    """
    standard_webhooks: webhook-id, webhook-timestamp and webhook-signature (Standard Webhooks 1.0.0). svix: svix-id, svix-timestamp and svix-signature beside these. template: an HMAC in a header of your choice. Required.
    """
    value: NotRequired[str | None]
    """
    For template: with {signature} or {signatures} once, and {id} and {timestamp}. {signature}: during the overlap of a rotation the part between commas is repeated for the older secret; without a comma only the newest secret signs. {signatures}: those of both secrets with a comma between them. Default {signature}.
    """


class SigningType2(TypedDict):
    """
    Signing is how the deliveries to a destination are signed.
    """

    algorithm: str
    """
    `ed25519`: the receiver verifies with `public_key` and has no secret.
    """
    public_key: str | None
    """
    `whpk_` and the base64 of the public key; `null` for `hmac-sha256`.
    """
    scheme: str
    schemes: list[SigningScheme]
    """
    How deliveries are signed: by all of these at once.
    """
    secret: NotRequired[str]
    """
    Only in the response that created it. Never for `ed25519`.
    """
    secret_last4: str


class Source(TypedDict):
    kafka: NotRequired[KafkaSource]


class SourceInput(TypedDict):
    kafka: NotRequired[KafkaSourceInput | None]
    """
    A topic in your Kafka. Merged member by member.
    """


class StatusCounts(TypedDict):
    """
    StatusCounts counts events by their status.
    """

    delivered: int
    failed: int
    pending: int
    rejected: int
    retrying: int
    skipped: int


StreamBody: TypeAlias = str


class StreamEnd(TypedDict):
    """
    Nothing more comes.
    """

    reason: str


class StreamItem(TypedDict):
    data: str
    """
    JSON in one line.
    """
    event: str
    id: NotRequired[str]
    """
    For `Last-Event-ID`; the `end` has none.
    """


class StreamReady(TypedDict):
    """
    The stream has begun.
    """

    endpoint_id: EndpointId


class TenantKeyInput(TypedDict):
    """
    TenantKey is an API key of a tenant. It reaches the endpoints of the tenant, and nothing else of your account.
    """

    agent: NotRequired[bool]
    """
    `true`: for an agent, whose changes a person has to approve. Default `false`.
    """
    expires_at: NotRequired[str | None]
    """
    When the key ends; `null`: it does not.
    """
    name: str
    scope: Literal["read", "read_write"]


class TenantLimits(TypedDict):
    destinations: int | None
    """
    Destinations of all its endpoints at most.
    """
    endpoints: int | None
    """
    Endpoints at most; null: 100.
    """
    events_per_second: int | None
    """
    Accepted events of all its endpoints at most, over all nodes.
    """


class TenantLimitsInput(TypedDict):
    destinations: NotRequired[int | None]
    """
    Destinations of all its endpoints at most.
    """
    endpoints: NotRequired[int | None]
    """
    Endpoints at most; null: 100.
    """
    events_per_second: NotRequired[int | None]
    """
    Accepted events of all its endpoints at most, over all nodes.
    """


TenantName: TypeAlias = str


class TenantPortal(TypedDict):
    color: str
    """
    Colour of buttons, as #rrggbb, and of links and tabs, made darker or lighter where it would be hard to read. Default: that of the dashboard.
    """
    logo_dark_url: str
    """
    The same for dark pages. Default: logo_url.
    """
    logo_url: str
    """
    https address of a picture beside the title. Browsers of the tenant fetch it. Default: none.
    """
    title: str
    """
    Name at the top of each page, such as that of your product. Default: Webhooks.
    """


class TenantPortalInput(TypedDict):
    color: NotRequired[str]
    """
    Colour of buttons, as #rrggbb, and of links and tabs, made darker or lighter where it would be hard to read. Default: that of the dashboard.
    """
    logo_dark_url: NotRequired[str]
    """
    The same for dark pages. Default: logo_url.
    """
    logo_url: NotRequired[str]
    """
    https address of a picture beside the title. Browsers of the tenant fetch it. Default: none.
    """
    title: NotRequired[str]
    """
    Name at the top of each page, such as that of your product. Default: Webhooks.
    """


Time: TypeAlias = str


TimeOrNull: TypeAlias = str


class TransformFailure(TypedDict):
    """
    TransformFailure says which operation of a transformation failed, and where.
    """

    index: int | None
    """
    The operation that failed; `null`: the sample or the result is at fault.
    """
    message: str
    pointer: str
    """
    JSON Pointer to the place; empty for the whole document.
    """
    transformation_version: int
    """
    The version of the transformation.
    """


class TransformationInput(TypedDict):
    """
    Changes deliveries. `null` or no operations: bodies are delivered as they are stored. Of a destination, `null`
    means as the endpoint. The array alone is a short form. It replaces the operations as a whole, and each change
    makes a new version. Deliveries that are already queued, retries and replays use the newest one.

    """

    ops: NotRequired[Any]


class TransformationOpInput(TypedDict):
    """
    The operations that a request may have. A later version may have more, which answers then have too.
    """

    op: NotRequired[Literal["rename", "pick", "drop", "wrap", "add", "set", "header", "path", "method", "cancel"]]


TransformationPath: TypeAlias = str
"""
With a leading `/` a JSON Pointer, otherwise dotted: `data.items.0.sku`. A step `*` matches each element of an
array; in an object it is the member `*`. At the end of the path of `add` or of `to`, `-` is the place
after the last element. In `rename`, both paths have as many `*`.

"""


class TransformationStep(TypedDict):
    """
    TransformationStep is what one operation did.
    """

    changed: list[Change]
    changed_total: int
    index: int
    op: str
    warnings: list[str]
    """
    What the event does not have.
    """


class TransformationVersion(TypedDict):
    """
    TransformationVersion says when and by whom a version was made.
    """

    created_at: Time
    created_by: AuditActor
    inherits: NotRequired[bool]
    """
    `true`: the destination has that of the endpoint again.
    """
    operations: int
    """
    How many it has; 0 ended the transformation.
    """
    version: int


class TripwireFile(TypedDict):
    """
    TripwireFile is a file with the secrets of a tripwire, to serve at Path.
    """

    content: str
    """
    The whole file. Serve it at the path.
    """
    path: str


TripwireId: TypeAlias = str


class TripwireInput(TypedDict):
    """
    Tripwire is a honeytoken: a fake key, URL or file. Counts are null while the event store is unavailable.
    """

    domain_id: DomainId
    kind: Literal["key", "url", "file"]
    """
    `key` is an API key, `url` an ingest URL, `file` a file that has one of each.
    """
    label: NotRequired[str]
    """
    Printable. Default is the end of the id.
    """
    path: NotRequired[Literal["/.env", "/.git/config", "/credentials.json"]]
    """
    Which file, if `kind` is `file`. Default `/.env`.
    """
    placement: NotRequired[str]
    """
    Where you put it. If it names a path of the website, leak scans ignore the tripwire there and report it elsewhere.
    """


class TripwireSnippet(TypedDict):
    """
    TripwireSnippet is a text with a secret of a tripwire that can be planted.
    """

    name: str
    text: str


class TryMatch(TypedDict):
    """
    TryMatch is one secret in the text.
    """

    line: int
    """
    From 1 on.
    """
    masked: str
    name: str
    rule: str
    severity: str
    """
    In a log line.
    """


class UsageDay(TypedDict):
    """
    UsageDay is the usage of a day.
    """

    bytes: int
    date: str
    findings: int
    """
    Findings of the leak scan.
    """
    received: int
    """
    Events from providers.
    """
    sent: int
    """
    Events sent through the API.
    """
    total: int


class UsedEvents(TypedDict):
    """
    UsedEvents counts accepted events and findings. Retries, replays, duplicates, rejected events and test events do not count.
    """

    findings: int
    """
    Findings of the leak scan.
    """
    received: int
    """
    Events from providers.
    """
    sent: int
    """
    Events sent through the API.
    """
    total: int


class Verification(TypedDict):
    """
    Verification is how the provider signs its requests. `null`: signatures are not verified.
    """

    algorithm: NotRequired[str]
    """
    Hash of the HMAC. For `hmac` only; default `sha256`.
    """
    encoding: NotRequired[str]
    """
    Encoding of the signature. For `hmac` only; default `hex`.
    """
    header: NotRequired[str]
    """
    Header that carries the signature. For `hmac` only; default `X-Signature`.
    """
    mode: str
    """
    `enforce`: events without a valid signature are stored as `rejected` and not delivered. `observe`: they are delivered and marked in `relay-verification`. Default `enforce`.
    """
    prefix: NotRequired[str]
    """
    Text before the signature in the header, such as `sha256=`. For `hmac` only; default none.
    """
    secret_last4: str
    secret_set: bool
    signed_content: NotRequired[str]
    """
    Template of the signed text, with the placeholders `{timestamp}` and `{body}`. For `hmac` only; default `{body}`.
    """
    tolerance_seconds: int
    """
    Maximum difference between the signed time and the time of receipt, in seconds. For types that sign a timestamp (such as stripe, slack, standard_webhooks, hmac with `{timestamp}`). Default `300`.
    """
    type: str
    """
    The same as `provider`.
    """


Secret: TypeAlias = str


class VerificationInput(TypedDict):
    """
    Verification is how the provider signs its requests. `null`: signatures are not verified.
    """

    algorithm: NotRequired[Literal["sha256", "sha1", "sha512"]]
    """
    Hash of the HMAC. For `hmac` only; default `sha256`.
    """
    encoding: NotRequired[Literal["hex", "base64"]]
    """
    Encoding of the signature. For `hmac` only; default `hex`.
    """
    header: NotRequired[str]
    """
    Header that carries the signature. For `hmac` only; default `X-Signature`.
    """
    mode: NotRequired[Literal["enforce", "observe"]]
    """
    `enforce`: events without a valid signature are stored as `rejected` and not delivered. `observe`: they are delivered and marked in `relay-verification`. Default `enforce`.
    """
    prefix: NotRequired[str]
    """
    Text before the signature in the header, such as `sha256=`. For `hmac` only; default none.
    """
    secret: NotRequired[str]
    """
    The provider's signing secret. For some types it is the provider's public key, `user:password`, the ARN of the topic or the id of the webhook. Write-only: responses show `secret_last4`. Its mask means unchanged.
    """
    secrets: NotRequired[list[Secret]]
    """
    Up to three secrets, instead of `secret`: a signature is valid if one of them matches.
    """
    signed_content: NotRequired[str]
    """
    Template of the signed text, with the placeholders `{timestamp}` and `{body}`. For `hmac` only; default `{body}`.
    """
    tolerance_seconds: NotRequired[int]
    """
    Maximum difference between the signed time and the time of receipt, in seconds. For types that sign a timestamp (such as stripe, slack, standard_webhooks, hmac with `{timestamp}`). Default `300`.
    """
    type: NotRequired[
        Literal[
            "stripe",
            "github",
            "shopify",
            "slack",
            "twilio",
            "standard_webhooks",
            "hmac",
            "adyen",
            "airwallex",
            "bitbucket",
            "cal_com",
            "calendly",
            "chargebee",
            "clerk",
            "coinbase_commerce",
            "discord",
            "docusign",
            "figma",
            "gitlab",
            "hubspot",
            "intercom",
            "jira",
            "line",
            "linear",
            "liveblocks",
            "mailgun",
            "meta",
            "mux",
            "notion",
            "openai",
            "paddle",
            "pagerduty",
            "paypal",
            "postmark",
            "razorpay",
            "replicate",
            "resend",
            "sendgrid",
            "sentry",
            "sns",
            "square",
            "supabase",
            "svix",
            "telnyx",
            "twitch",
            "typeform",
            "vercel",
            "woocommerce",
            "workos",
            "xero",
            "zendesk",
            "zoom",
        ]
    ]
    """
    The same as `provider`.
    """


class WaitingDestination(TypedDict):
    """
    WaitingDestination is a destination whose deliveries wait, or that the service has disabled.
    """

    destination_id: str
    destination_name: str | None
    endpoint_id: str
    endpoint_name: str
    host: str
    state: str
    state_reason: str | None
    until: str | None
    """
    When the next probe is sent to a `held` destination; else `null`.
    """


class WaitingDestinationCounted(TypedDict):
    data: list[WaitingDestination]
    total: int


class WaitingRecovery(TypedDict):
    """
    WaitingRecovery is a recovery job that waits for approval.
    """

    canary: Canary
    created_by: str
    deadline_at: Time
    destination_id: str | None
    endpoint_id: str
    endpoint_name: str | None
    """
    `null`: the endpoint was deleted.
    """
    id: str
    total: int


class WaitingRecoveryCounted(TypedDict):
    data: list[WaitingRecovery]
    total: int


class Warning(TypedDict):
    """
    Warning says that a member of the request was ignored, or that a setting will not work as it is.
    """

    message: str
    """
    What is wrong with it.
    """
    param: str
    """
    The member, as a dotted path with indexes.
    """


Warnings: TypeAlias = list[Warning]
"""
Present only if there are warnings.
"""


class Why(TypedDict):
    """
    Why explains a status. Its sentence is [Why.Text].
    """

    cause: str | None
    """
    What happened last, such as `attempt 2 failed (HTTP 503)`, or for which event it waits, such as `behind evt_06e9…`; `null` if it is not known.
    """
    code: str
    """
    The reason, or what halts an open delivery: `endpoint_deleted`, `destination_deleted`, `destination_disabled`, `purged`, `endpoint_paused`, `destination_paused` or `payload_erased`. The status, if there is neither.
    """
    until: str | None
    """
    When something happens next: an attempt, a probe of the circuit breaker, or, for `payload_erased`, the end of the delivery. `null` if nothing is planned.
    """


class Acknowledged(TypedDict):
    """
    Acknowledged is the answer to acknowledgements, one for each, in their order.
    """

    data: list[Acknowledgement]


class Alert(TypedDict):
    """
    Alert is something that needs attention, or did.
    """

    destination_id: str | None
    endpoint_id: str | None
    """
    `null` for alerts of the account.
    """
    fired_at: Time
    id: str
    object: Literal["alert"]
    recovery_id: str | None
    """
    Only of the rule `recovery`.
    """
    resolved_at: str | None
    """
    `null` while it fires.
    """
    rule: str
    state: str
    threshold: AlertValue | None
    type: str
    """
    The type of its messages, such as `alert.destination.held`.
    """
    value: AlertValue | None


class AlertChannels(TypedDict):
    """
    The channels; `null` for one that is not configured.
    """

    email: AlertEmail | None
    slack: AlertSlack | None
    webhook: AlertWebhook | None


class Slack(TypedDict):
    enabled: NotRequired[bool]
    """
    Default `true`.
    """
    webhook_url: NotRequired[AlertURL]


class Webhook(TypedDict):
    enabled: NotRequired[bool]
    """
    Default `true`.
    """
    rotate_secret: NotRequired[bool]
    """
    `true` generates a new secret. Default `false`.
    """
    secret: NotRequired[str]
    """
    `whsec_` and the base64 of 24 to 64 bytes. Default: a generated secret.
    """
    url: NotRequired[AlertURL]


class AlertChannelsInput(TypedDict):
    """
    `null` removes one channel, or all of them.
    """

    email: NotRequired[Email | None]
    slack: NotRequired[Slack | None]
    webhook: NotRequired[Webhook | None]


class AlertCounted(TypedDict):
    data: list[Alert]
    total: int


class AlertList(TypedDict):
    data: list[Alert]
    next_cursor: NotRequired[NextCursor]


class AlertRules(TypedDict):
    backlog_age: AlertAgeRule
    consecutive_failures: AlertThresholdRule
    delivery_failed: AlertRule
    destination_state: AlertRule
    failure_rate: AlertRateRule
    finding: AlertFindingRule
    processing_missing: AlertProcessingRule
    recovery: AlertRule
    source_failing: AlertAgeRule
    usage: AlertUsageRule
    verification_failed: AlertThresholdRule


class AlertRulesInput(TypedDict):
    backlog_age: NotRequired[AlertAgeRuleInput | None]
    consecutive_failures: NotRequired[AlertThresholdRuleInput | None]
    """
    Fires after that many failed attempts in a row at a destination.
    """
    delivery_failed: NotRequired[AlertRuleInput | None]
    """
    Fires when a delivery fails for good. It fires again only after a delivery to the destination has succeeded.
    """
    destination_state: NotRequired[AlertRuleInput | None]
    """
    Fires when the service holds or disables a destination.
    """
    failure_rate: NotRequired[AlertRateRuleInput | None]
    finding: NotRequired[AlertFindingRuleInput | None]
    processing_missing: NotRequired[AlertProcessingRuleInput | None]
    recovery: NotRequired[AlertRuleInput | None]
    """
    Fires when a recovery job has ended, unless it was cancelled.
    """
    source_failing: NotRequired[AlertAgeRuleInput | None]
    """
    Fires when the source of an endpoint cannot be read, or its provider cannot be asked for events, for longer than that.
    """
    usage: NotRequired[AlertUsageRuleInput | None]
    verification_failed: NotRequired[AlertThresholdRuleInput | None]
    """
    Fires after that many invalid signatures.
    """


class AlertSettings(TypedDict):
    """
    AlertSettings says what alerts are about, and where they go.
    """

    channels: AlertChannels
    cooldown_seconds: int
    """
    Shortest time between two messages about the same subject, in seconds.
    """
    rules: AlertRules
    updated_at: str | None
    warnings: NotRequired[Warnings]


class AlertSettingsInput(TypedDict):
    """
    AlertSettings says what alerts are about, and where they go.
    """

    channels: NotRequired[AlertChannelsInput | None]
    cooldown_seconds: NotRequired[int | None]
    """
    Shortest time between two messages about the same subject, in seconds.
    """
    email: NotRequired[AlertAddresses | None]
    """
    Short for `channels.email.to`.
    """
    rules: NotRequired[AlertRulesInput | None]
    """
    Merged rule by rule; `null` resets one rule, or all of them, to the defaults.
    """
    slack_webhook_url: NotRequired[str | None]
    """
    Short for `channels.slack.webhook_url`.
    """
    webhook_url: NotRequired[str | None]
    """
    Short for `channels.webhook.url`.
    """


class AlertTestResult(TypedDict):
    """
    AlertTestResult is the response to a test of all channels.
    """

    failed: int
    results: list[AlertTestOutcome]
    sent: int
    warnings: NotRequired[Warnings]


class AttemptResponse(TypedDict):
    """
    AttemptResponse is the answer of the destination.
    """

    body: str
    body_encoding: BodyEncoding
    headers: dict[str, str]
    truncated: bool


class BatchEvent(TypedDict):
    data: dict[str, Any]
    deliver_at: NotRequired[str | None]
    """
    When it is delivered, at most 30 days ahead and within the retention. Default, and if it has passed, at once.
    """
    expires_at: NotRequired[str | None]
    """
    From then on no delivery of it is tried any more; it ends as skipped (`expired`). In the future, after `deliver_at`. Replays ignore it.
    """
    idempotency_key: NotRequired[str | None]
    type: SentType


class CatalogueSettings(TypedDict):
    """
    CatalogueSettings say who may see the catalogue.
    """

    object: Literal["catalogue_settings"]
    public: bool
    """
    `true`: `/catalogue` and `/catalogue/openapi.json` show it to everybody, without internal types. Default `false`.
    """
    title: str
    """
    Heading of the page and title of the document. Default: Webhooks.
    """
    warnings: NotRequired[Warnings]


class Consumer(TypedDict):
    """
    Consumer is who pulls a destination.
    """

    consumer: str
    last_pull_at: Time
    leases: int
    """
    Number of events that it has and has not acknowledged.
    """
    pulling: bool
    """
    A pull waits for events.
    """


class Consumers(TypedDict):
    """
    Consumers are those of the last hour, up to 100 of each node that has events of the destination.
    """

    data: list[Consumer]


class CountedStep(TypedDict):
    """
    CountedStep has the events that were received in one step of time.
    """

    at: Time
    delivered: int
    failed: int
    pending: int
    rejected: int
    retrying: int
    skipped: int


class CriticalFinding(TypedDict):
    """
    CriticalFinding is an open finding of `critical` or `high` severity.
    """

    id: str
    masked: str | None
    name: str
    opened_at: Time
    rule: str
    severity: str


class CriticalFindingCounted(TypedDict):
    data: list[CriticalFinding]
    total: int


class DSN(TypedDict):
    """
    DSN is what an application with the SDK sends its reports to.
    """

    allowed_origins: list[str]
    """
    Origins of the pages that may send reports, such as `https://app.example.com` or `https://*.example.com`. Only for `browser`; without any (`[]` or `null`), all pages may. It keeps out mistakes only: programs can send any origin.
    """
    created_at: Time
    created_by: str
    daily_quota: int | None
    """
    Reports of a UTC day that are accepted; `null` for no limit.
    """
    dsn: str
    """
    The DSN to configure in the application. For server DSNs, read-only keys see its key masked.
    """
    hits_24h: int | None
    """
    Secrets, each as often as it occurred.
    """
    id: DSNId
    last_error: str | None
    """
    Why the newest refused request of the last 24 hours was refused. `masking_failed`: the application withheld lines that it could not mask.
    """
    last_received_at: str | None
    """
    Arrival of the newest request of the last 24 hours, a refused one included.
    """
    name: str
    """
    Printable. Default is the end of its id.
    """
    object: Literal["dsn"]
    platform: str
    """
    Required for a new DSN, and then fixed. Use `browser` for whatever users can download.
    """
    rejected_24h: int | None
    """
    Requests that were refused.
    """
    reports_24h: int | None
    requests_24h: int | None
    """
    `null` while the store does not answer.
    """
    sdk: str | None
    """
    Name and version in the newest request of the last 24 hours that names them.
    """
    updated_at: Time
    version: int
    """
    Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`).
    """
    warnings: NotRequired[Warnings]


class DSNList(TypedDict):
    data: list[DSN]
    next_cursor: NotRequired[NextCursor]


class Delivery(TypedDict):
    """
    Delivery is an event on its way to one destination.
    """

    attempts: int
    destination_id: DestinationId
    filter_failure: str | None
    """
    Why the condition of the destination's filter had no value, if `reason` is `transform_failed`. Computed again on each read: `null` if it has one now.
    """
    id: DeliveryId
    next_attempt_at: str | None
    reason: str | None
    run_id: str | None
    status: str
    transform_failure: TransformFailure | None
    """
    Why the transformation failed, if `reason` is `transform_failed`. Computed again on each read: `null` if the payload was erased, the endpoint was deleted, or the operations of that version are no longer kept.
    """
    why: str
    """
    Explains the status in one sentence, for people.
    """
    why_details: Why


class DeliveryState(TypedDict):
    """
    DeliveryState is the state of an event at one destination, in a list.
    """

    destination_id: DestinationId
    last_response_status: int | None
    """
    HTTP status of the last attempt; `null` without a response.
    """
    reason: str | None
    status: str


class DetectionSettings(TypedDict):
    """
    DetectionSettings are the account's own rules for secrets.
    """

    object: Literal["detection_settings"]
    rules: list[DetectionRule]
    updated_at: str | None
    updated_by: str | None
    """
    The API key or person that changed the rules last.
    """
    version: int
    """
    Counts the changes; 0 before the first one. A change with another version than the current one is refused.
    """
    warnings: NotRequired[Warnings]


class DetectionTry(TypedDict):
    """
    DetectionTry is what rules have found in a text.
    """

    masked: str
    """
    The text with a mask in place of each secret.
    """
    matches: list[TryMatch]
    object: Literal["detection_try"]
    total: int
    """
    Number of secrets, also of those that `matches` lacks.
    """
    warnings: NotRequired[Warnings]


class Domain(TypedDict):
    """
    Domain is a host name that you own or claim to own.
    """

    advice: str | None
    """
    What to do about the last check.
    """
    checked_at: str | None
    """
    When the proof was looked for last.
    """
    created_at: Time
    created_by: str
    dns_record: str
    """
    Name, type and value of the TXT record.
    """
    expires_at: str | None
    """
    When the domain expires without a proof.
    """
    hostname: str
    """
    The host name alone, such as `www.example.com`. It is stored in lower-case ASCII.
    """
    http_url: str
    """
    URL of the file. Its content is the token alone, in at most 1 KiB.
    """
    id: DomainId
    last_error: str | None
    """
    Why the last check found no proof. `null` if it did.
    """
    last_method: str | None
    """
    Of the last check.
    """
    method: str | None
    """
    The method that has verified the domain.
    """
    object: Literal["domain"]
    seen: str | None
    """
    What was found instead, in at most 200 bytes. Secrets are masked.
    """
    status: str
    token: str
    """
    Proves the host name. It is no secret once it is published.
    """
    updated_at: Time
    verified_at: str | None
    warnings: NotRequired[Warnings]


class DomainList(TypedDict):
    data: list[Domain]
    next_cursor: NotRequired[NextCursor]


class Drain(TypedDict):
    """
    Drain is a log drain.
    """

    bytes_24h: int | None
    """
    After decompression.
    """
    created_at: Time
    created_by: str
    detected_platform: str | None
    """
    That of the newest request of the last 24 hours that names one.
    """
    hits_24h: int | None
    """
    Secrets, each as often as it occurred.
    """
    id: DrainId
    last_error: str | None
    """
    Why the newest refused request of the last 24 hours was refused.
    """
    last_received_at: str | None
    """
    Arrival of the newest request of the last 24 hours, a refused one included.
    """
    lines_24h: int | None
    name: str
    """
    Printable. Default is the end of its id.
    """
    object: Literal["drain"]
    platform: str
    """
    `auto`, the default, recognises the platform from each request and answers as it expects.
    """
    rejected_24h: int | None
    """
    Requests that were refused.
    """
    requests_24h: int | None
    """
    `null` while the store does not answer.
    """
    signing_secret_set: bool
    status: str
    updated_at: Time
    url: str
    """
    Anyone who knows it can send lines, so read-only keys and agent keys see its token as `****` and four characters.
    """
    verify_code_set: bool
    version: int
    """
    Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`).
    """
    warnings: NotRequired[Warnings]


class DrainList(TypedDict):
    data: list[Drain]
    next_cursor: NotRequired[NextCursor]


class EndpointDays(TypedDict):
    """
    EndpointDays is the usage of one endpoint with its days.
    """

    bytes: int
    daily: list[EndpointDay]
    """
    The days with an event, oldest first.
    """
    endpoint_id: EndpointId
    received: int
    sent: int
    total: int


class ErrorDetail(TypedDict):
    code: NotRequired[str]
    """
    A more specific code than `type`, if there is one.
    """
    doc_url: str
    """
    Link to the explanation of `type`.
    """
    message: str
    """
    What is wrong and what to do next, for people. It may change at any time.
    """
    param: NotRequired[str]
    """
    The invalid parameter: a dotted path with indexes in the body, or the name of a query parameter or header.
    """
    queued: NotRequired[int]
    """
    Number of deliveries that this replay had queued.
    """
    request_id: str
    """
    The same as `X-Request-Id`.
    """
    run_id: NotRequired[RunId]
    type: ErrorType


class EventBatch(TypedDict):
    events: list[BatchEvent]
    """
    The events. An invalid one is refused on its own; the others are stored.
    """


class EventRow(TypedDict):
    """
    EventRow is an event in a list, and the answer to a send.
    """

    attempts: int
    """
    Number of HTTP attempts at all destinations.
    """
    deliveries: list[DeliveryState]
    """
    The newest state at each destination.
    """
    destinations: EventCounts
    endpoint_id: EndpointId
    id: EventId
    last_attempt_at: str | None
    next_attempt_at: str | None
    object: Literal["event"]
    payload_erased_at: str | None
    """
    When the payload was erased on request.
    """
    processing: str
    """
    State of the newest processing receipt, `none` without one.
    """
    reason: str | None
    received_at: Time
    size_bytes: int
    source: str
    status: EventStatus
    type: str | None
    verification: str
    """
    How far the origin of the event is proved. `verified`: by the provider's signature. `observed`: the signature is missing or wrong, and the endpoint only observes. `unverified`: the endpoint asks for no signature. `rejected`: the signature is missing or wrong. `sent`: through this API. Deliveries carry it as `relay-verification`.
    """
    why: str
    """
    Explains the status in one sentence, for people. It says so if no attempt is made at `next_attempt_at`, because the endpoint or a destination was deleted, disabled, purged or paused since. A list does not know the last attempt.
    """
    why_details: Why


class EventSend(TypedDict):
    data: dict[str, Any]
    """
    Content of the event. Nesting depth at most 64.
    """
    deliver_at: NotRequired[str | None]
    """
    When it is delivered, at most 30 days ahead and within the retention. Default, and if it has passed, at once.
    """
    expires_at: NotRequired[str | None]
    """
    From then on no delivery of it is tried any more; it ends as skipped (`expired`). In the future, after `deliver_at`. Replays ignore it.
    """
    type: SentType


class EventTypeInput(TypedDict):
    """
    EventType is an entry of the catalogue of your event types.
    """

    deprecated: NotRequired[bool]
    """
    `true`: new receivers should not use it. Default `false`.
    """
    description: NotRequired[str]
    """
    For people; Markdown. Default: empty.
    """
    example: NotRequired[AnyJSON]
    group: NotRequired[str]
    """
    Groups types in lists. Default: empty.
    """
    internal: NotRequired[bool]
    """
    `true`: it is neither in the public catalogue nor in the portal. Default `false`.
    """
    name: NotRequired[EventTypeName]
    schema: NotRequired[EventSchema]


class EventTypeVersion(TypedDict):
    """
    EventTypeVersion is a version of the schema of an event type.
    """

    created_at: Time
    example: AnyJSON
    schema: EventSchema
    version: int


class FilteredEvent(TypedDict):
    """
    FilteredEvent says whether an event passes a filter.
    """

    error: str | None
    """
    Why the conditions have no value for it: its delivery would end `failed`, `transform_failed`.
    """
    event_id: EventId
    passes: bool
    received_at: Time
    type: str | None


class FindingLocation(TypedDict):
    count: int
    drain_id: NotRequired[str]
    dsn_id: NotRequired[str]
    endpoint_id: NotRequired[str]
    event_id: NotRequired[str]
    """
    That of the newest hit at this location.
    """
    file: NotRequired[str]
    function: NotRequired[str]
    label: str
    """
    Names the place: the application that wrote the line, the domain, or the name of the sender.
    """
    last_seen: Time
    line: NotRequired[int]
    """
    That of the newest hit.
    """
    lines: NotRequired[list[Line]]
    """
    The lines of this file and function at which an SDK saw it, ascending; of more than 20 the newest.
    """
    pointer: NotRequired[str]
    """
    JSON pointer (RFC 6901) into an event.
    """
    scan_id: NotRequired[str]
    source: FindingSource
    tripwire_id: NotRequired[str]
    url: NotRequired[str]
    """
    Without query and fragment.
    """


class FindingPlace(TypedDict):
    drain_id: NotRequired[str]
    dsn_id: NotRequired[str]
    endpoint_id: NotRequired[str]
    event_id: NotRequired[str]
    """
    That of the newest hit at this location.
    """
    file: NotRequired[str]
    function: NotRequired[str]
    label: str
    """
    Names the place: the application that wrote the line, the domain, or the name of the sender.
    """
    line: NotRequired[int]
    pointer: NotRequired[str]
    """
    JSON pointer (RFC 6901) into an event.
    """
    scan_id: NotRequired[str]
    source: FindingSource
    tripwire_id: NotRequired[str]
    url: NotRequired[str]
    """
    Without query and fragment.
    """


class Fixture(TypedDict):
    """
    Fixture is an event without secrets and personal data, for tests, with the answer that is expected.
    """

    body: Any
    """
    The sanitised JSON.
    """
    created_at: Time
    created_by: str
    edited: bool
    """
    Whether the body was given, and is not that of the event.
    """
    endpoint_id: str
    """
    That of the event, which may have been deleted.
    """
    event_type: str | None
    """
    Without secrets and personal data.
    """
    expected_status: int
    expires_at: Time
    id: FixtureId
    keep: list[str]
    method: str
    name: str
    object: Literal["fixture"]
    redactions: list[Redaction]
    """
    What the sanitiser replaces in the event, with what is kept.
    """
    removed: int
    """
    Values of the event that are redacted and not kept.
    """
    required: list[RequiredField]
    size_bytes: int
    """
    Of the body.
    """
    source_event_id: EventId
    updated_at: Time
    version: int
    """
    Counts the changes.
    """
    warnings: NotRequired[Warnings]


class FixtureChangeInput(TypedDict):
    """
    FixtureChange is what a request says of a fixture; nil: nothing.
    """

    body: NotRequired[Any]
    """
    Any JSON of at most 256 KiB and 64 levels, instead of the sanitised event.
    """
    event_id: EventId
    expected_status: NotRequired[int]
    """
    Default 200.
    """
    expires_at: NotRequired[FixtureExpiry]
    keep: NotRequired[list[str] | None]
    """
    Pointers of `redactions` whose values stay as they are in the event. Not those of secrets, and not together with `body`.
    """
    name: NotRequired[str]
    """
    Printable characters.
    """
    required: NotRequired[list[RequiredField] | None]
    """
    What the JSON of the answer must have.
    """


class FixtureChangeUpdate(TypedDict):
    """
    FixtureChange is what a request says of a fixture; nil: nothing.
    """

    body: NotRequired[Any]
    """
    Any JSON of at most 256 KiB and 64 levels, instead of the sanitised event.
    """
    event_id: NotRequired[EventId]
    expected_status: NotRequired[int]
    """
    Default 200.
    """
    expires_at: NotRequired[FixtureExpiry]
    keep: NotRequired[list[str] | None]
    """
    Pointers of `redactions` whose values stay as they are in the event. Not those of secrets, and not together with `body`.
    """
    name: NotRequired[str]
    """
    Printable characters.
    """
    required: NotRequired[list[RequiredField] | None]
    """
    What the JSON of the answer must have.
    """
    version: NotRequired[int]
    """
    The version that was read.
    """


class Expect(TypedDict):
    required: NotRequired[list[RequiredField]]
    status: int


class Fixture1(TypedDict):
    body: Any
    """
    The sanitised JSON.
    """
    expect: Expect
    expires_at: Time
    id: FixtureId
    method: str
    name: str
    type: str | None


class FixtureSuite(TypedDict):
    expires_at: Time
    exported_at: Time
    fixtures: list[Fixture1]
    format: Literal["relay.fixture-suite"]
    suite_id: str
    version: Literal[1]


class FixtureSummary(TypedDict):
    """
    FixtureSummary is a fixture in a list.
    """

    created_at: Time
    created_by: str
    edited: bool
    """
    Whether the body was given, and is not that of the event.
    """
    endpoint_id: str
    """
    That of the event, which may have been deleted.
    """
    event_type: str | None
    """
    Without secrets and personal data.
    """
    expected_status: int
    expires_at: Time
    id: FixtureId
    method: str
    name: str
    object: Literal["fixture"]
    removed: int
    """
    Values of the event that are redacted and not kept.
    """
    size_bytes: int
    """
    Of the body.
    """
    source_event_id: EventId
    updated_at: Time
    version: int
    """
    Counts the changes.
    """


class FixtureSummaryList(TypedDict):
    data: list[FixtureSummary]
    next_cursor: NotRequired[NextCursor]


class Hour(TypedDict):
    """
    Hour is one hour of an endpoint.
    """

    at: Time
    delivered: int
    failed: int
    requests: int


class IngestLimitChange(IngestLimitInput):
    """
    Limits of what the endpoint accepts per second, on all nodes together. Above a limit, its ingest URL and sends get 429 with `Retry-After`. A member that is left out stays as it is. `{"events_per_second": null}` removes that limit and keeps the other; `null` instead of the object removes both.
    """


class Issue(TypedDict):
    """
    Issue is what failed at one destination for one cause.
    """

    assignee: str
    """
    Who takes care of it. Default: empty.
    """
    cause: str
    """
    `http_` and the status of the answer, an `error_code` of an attempt, or the `reason` of deliveries without one. A destination has at most 20 causes; the rest are counted as `other`.
    """
    count: int
    """
    Failed requests, and deliveries that failed without one. It is at most a minute behind.
    """
    created_at: Time
    destination_id: DestinationId
    destination_name: str | None
    endpoint_id: EndpointId
    endpoint_name: str | None
    """
    `null`: the endpoint was deleted.
    """
    events: list[str]
    """
    The newest events that it concerns, newest first.
    """
    failed_events: int | None
    """
    How many events since then have failed for good at the destination, at most 1,000. `null`: not counted, as in lists and while the event store is late.
    """
    first_seen_at: Time
    id: IssueId
    last_seen_at: Time
    note: str
    object: Literal["issue"]
    oldest_event_at: str | None
    """
    When the oldest event that failed was received.
    """
    reopened: int
    """
    How often it was resolved and opened again.
    """
    resolved_at: str | None
    status: str
    """
    A resolved issue opens again with the next failure. One whose destination was deleted, or works again an hour after the last failure, is resolved by the service.
    """
    updated_at: Time
    warnings: NotRequired[Warnings]
    works_again_at: str | None
    """
    When a request to the destination succeeded, if none has failed for this cause since; `null`: none has.
    """


class IssueCounted(TypedDict):
    data: list[Issue]
    total: int


class IssueList(TypedDict):
    data: list[Issue]
    next_cursor: NotRequired[NextCursor]


class KeyUse(TypedDict):
    """
    KeyUse counts the requests with a key at one node.
    """

    count: int
    last_at: Time
    node: str


class Me(TypedDict):
    """
    Me is the API key of a request.
    """

    account_id: str
    agent: bool
    """
    `true` for the key of an agent. It cannot make changes through the API; a person approves them in the dashboard.
    """
    key_id: KeyId
    key_name: str
    scope: str
    tenant: NotRequired[TenantName]
    version: str
    """
    Version of the service.
    """


class MeasuredStep(TypedDict):
    """
    MeasuredStep is one step of time, such as a minute.
    """

    at: Time
    delivered: int
    """
    Requests that succeeded.
    """
    failed: int
    """
    Requests that failed.
    """
    first_attempts: int
    """
    First attempts of automatic deliveries.
    """
    first_attempts_delivered: int
    """
    Those of them that succeeded.
    """
    latency_ms: Latency | None
    """
    Quantiles of the durations of the requests; `null` without requests.
    """
    requests: int


class Occurrence(TypedDict):
    """
    Occurrence is one hit, or several equal ones in one request.
    """

    at: Time
    channel: str | None
    """
    Part of the source, such as `log`.
    """
    count: int
    """
    How often it was seen in the request.
    """
    environment: str | None
    location: FindingPlace
    method: str | None
    """
    HTTP method of the request.
    """
    object: Literal["occurrence"]
    observed_at: Time
    release: str | None
    remote_ip: str | None
    """
    Of the sender; `null` after 30 days.
    """
    remote_network: str | None
    """
    The /24 or /48 of the sender, which stays.
    """
    severity: FindingSeverity
    source: FindingSource
    test: bool
    unverified: bool
    user_agent: str | None


class OccurrenceList(TypedDict):
    data: list[Occurrence]
    next_cursor: NotRequired[NextCursor]


class OverviewEndpoint(TypedDict):
    """
    OverviewEndpoint is an endpoint in an overview.
    """

    destinations: list[DestinationRequests]
    """
    The destinations with any request in the last hour, removed ones included.
    """
    endpoint_id: str
    hours: list[Hour]
    """
    The last 24 hours with any request, oldest first; the current hour is the last of the 24.
    """
    last_hour: MeasuredRequests
    name: str | None
    """
    `null`: the endpoint was deleted.
    """
    provider: str | None


class OverviewNeeds(TypedDict):
    """
    OverviewNeeds is what needs a person. `total` counts all; `data` has the first 20.
    """

    alerts: AlertCounted
    destinations: WaitingDestinationCounted
    findings: CriticalFindingCounted
    issues: IssueCounted
    recoveries: WaitingRecoveryCounted


class OverviewTraffic(TypedDict):
    """
    OverviewTraffic is the traffic of an account.
    """

    busiest: list[OverviewEndpoint]
    """
    The endpoints with the most requests in the last 24 hours.
    """
    day_before: list[MeasuredStep]
    """
    The same steps one day before; empty for a range of more than 24h.
    """
    last_hour: MeasuredRequests
    minutes: list[MeasuredStep]
    """
    The minutes of the last hour with any request, oldest first.
    """
    range: str
    """
    The range of total, steps and day_before.
    """
    step_seconds: int
    steps: list[MeasuredStep]
    """
    The steps of the range with any request, oldest first.
    """
    total: MeasuredRequests
    worst: list[OverviewEndpoint]
    """
    The endpoints with the greatest part of failed requests in the last hour.
    """


class PayloadErased(TypedDict):
    """
    PayloadErased is the response to an erasure, the same for the first call and every repeat.
    """

    id: EventId
    object: Literal["event"]
    payload_erased_at: Time


class PortalLink(TypedDict):
    """
    PortalLink is a link to the pages of a tenant, and then the session of who has opened it.
    """

    can: list[str]
    """
    What the person may do: `view` destinations, events and attempts; change `destinations`; see and rotate signing `secrets`; `replay` events; send `test` events. `view` is always included. Default `view`.
    """
    created_at: Time
    ends_at: Time
    id: LinkId
    lang: str | None
    """
    Language of the pages. Default `null`: the first that the browser asks for and the portal has, else English.
    """
    object: Literal["portal_link"]
    opened_at: str | None
    """
    When the link was opened; `null`: it can still be.
    """
    refresh_url: str | None
    """
    Page of your application that creates the next link and leads to it. The portal opens it when the session has ended. Its origin must be in RELAY_PORTAL_ORIGINS.
    """
    return_url: str | None
    """
    Page of your application that the portal leads back to. Its origin must be in RELAY_PORTAL_ORIGINS.
    """
    session_seconds: int
    """
    How long the session lasts once the link is opened. Default 3600, an hour.
    """
    tenant: TenantName
    theme: str
    """
    `light` or `dark` pages; `auto`: as the browser prefers. `?theme=` at the end of `url` overrides it. Default `auto`.
    """
    token: NotRequired[str]
    """
    With `use` `api`, in place of `url`: the bearer token of the session. Only in the answer that creates it.
    """
    url: NotRequired[str]
    """
    Address to send the person's browser to. It can be opened once. Only in the answer that creates it.
    """
    use: str
    """
    `pages`: the link leads to the pages of the portal. `api`: the answer has a `token`, with which pages of RELAY_PORTAL_ORIGINS call the API: as the pages of the portal would, with the same rights, for `session_seconds`. Default `pages`.
    """


class PortalLinkList(TypedDict):
    data: list[PortalLink]
    next_cursor: NotRequired[NextCursor]


class PulledEvent(TypedDict):
    """
    PulledEvent is an event that a consumer has fetched, with the headers and the body of a delivery.
    """

    attempt: int
    """
    Number of the attempt, as the header `relay-attempt`.
    """
    attempt_id: AttemptId
    body: str
    body_encoding: BodyEncoding
    endpoint_id: EndpointId
    event_id: EventId
    headers: dict[str, str]
    """
    Those of a delivery, names in lower case. `webhook-signature` covers the bytes of the body.
    """
    leased_until: Time
    received_at: Time
    type: str | None


class Purged(TypedDict):
    id: DestinationId
    object: Literal["destination"]
    purged_before: Time


class RateLimitCreate(RateLimitInput):
    per_second: float
    """
    Deliveries per second. Required if there is no limit yet.
    """


class Receipt(TypedDict):
    """
    Receipt is what the application has reported of an event.
    """

    created_at: str | None
    details: ReceiptDetails | None
    reference: str | None
    state: str
    updated_at: Time


class ReceiptResult(TypedDict):
    """
    ReceiptResult is the response to a processing receipt: the receipt that is now in effect.
    """

    applied: bool
    """
    `false` if the event was already `processed` and this call reports another state; the receipt stays as it was.
    """
    created_at: str | None
    """
    When the first receipt was reported; `null` while the store is behind.
    """
    details: ReceiptDetails | None
    event_id: EventId
    reference: str | None
    state: str
    updated_at: Time
    warnings: NotRequired[Warnings]


class Reconcile(TypedDict):
    api_url: str
    """
    For GitHub Enterprise Server: https://HOST/api/v3. Default: that of the provider.
    """
    credential: str
    """
    Of the provider's API: a restricted key of Stripe with Events: Read, or a token of GitHub with Webhooks: Read and write. Masked in responses; its mask means unchanged. Required.
    """
    every_seconds: int
    """
    Seconds between two looks. Default 300.
    """
    hook: NotRequired[str]
    """
    For github: the webhook as its API names it, repos/OWNER/REPO/hooks/ID or orgs/ORG/hooks/ID. Required there.
    """
    since: Time
    types: list[str]
    """
    Only events of these types, as the provider names them. Default: all.
    """


class Recovery(TypedDict):
    """
    Recovery is a job that delivers failed deliveries again. Its five counters always add up to `total`.
    """

    by_destination: list[RecoveryDestination]
    canary: Canary
    created_at: Time
    created_by: KeyId
    deadline_at: Time
    delivered: int
    destination_id: str | None
    endpoint_id: EndpointId
    eta_seconds: int | None
    """
    Estimated time to the end of the job.
    """
    failed: int
    finished_at: str | None
    id: RecoveryId
    object: Literal["recovery"]
    pending: int
    queued: int
    """
    Submitted for delivery and without a result yet.
    """
    rate_per_second: int
    since: Time
    skipped: int
    started_at: str | None
    state: RecoveryState
    stop_reason: str | None
    total: int
    """
    Number of deliveries. Always the sum of the next five counters.
    """
    until: Time
    warnings: NotRequired[Warnings]


class RecoveryItem(TypedDict):
    """
    RecoveryItem is one delivery of a recovery job.
    """

    attempts: int
    """
    Number of HTTP attempts within the job, at most three: the second after 2 seconds, the third after 10 more. The endpoint's retry policy does not apply to deliveries of a job.
    """
    canary: bool
    delivery_id: DeliveryId
    destination_id: str
    event_id: EventId
    event_type: str | None
    """
    Type of the event; `null` if it has none.
    """
    id: str
    last_error_code: str | None
    last_response_status: int | None
    recovery_id: RecoveryId
    skipped_reason: str | None
    state: RecoveryItemState
    updated_at: Time


class RecoveryItemList(TypedDict):
    data: list[RecoveryItem]
    next_cursor: NotRequired[NextCursor]


class RecoveryList(TypedDict):
    data: list[Recovery]
    next_cursor: NotRequired[NextCursor]


ReplayInput: TypeAlias = ReplayAtTop | ReplayTimesBeside | ReplayInFilter
"""
The filters are at the top, all inside `filter`, or inside `filter` with the times at the top.
"""


class ReplayResult(TypedDict):
    events: int
    """
    Events selected.
    """
    queued: int
    """
    Deliveries queued.
    """
    run_id: str
    truncated: Literal[False]
    warnings: NotRequired[Warnings]


class ReplayRun(TypedDict):
    """
    ReplayRun is one replay of the events of a selection.
    """

    created_at: Time
    created_by: str | None
    """
    An API key or a person. `null`: an earlier version created it.
    """
    delivered: int
    ended: bool
    """
    Whether every delivery that was queued is delivered, failed or skipped.
    """
    events: int
    """
    Events selected.
    """
    failed: int
    filter: ReplayRunFilter
    object: Literal["replay_run"]
    queued: int
    """
    Deliveries queued so far.
    """
    run_id: RunId
    since: Time
    skipped: int
    state: ReplayRunState
    until: Time


class ReplayRunList(TypedDict):
    data: list[ReplayRun]
    next_cursor: NotRequired[NextCursor]


class Scan(TypedDict):
    """
    Scan is one search of a website for leaked keys and exposed files.
    """

    budget_exhausted: str | None
    """
    The first budget that ended.
    """
    bytes: int
    """
    After decompression.
    """
    catch_all: bool
    """
    The website answers 200 to paths that it does not have.
    """
    created_at: Time
    created_by: str | None
    """
    `null` for weekly scans.
    """
    domain_id: DomainId
    error: str | None
    """
    Why the scan failed.
    """
    findings_new: int
    """
    Findings that were not known before.
    """
    findings_seen: int
    """
    Findings that were known and are still there.
    """
    finished_at: str | None
    hostname: str
    id: ScanId
    object: Literal["scan"]
    pages: int
    """
    At most 50.
    """
    resources: int
    """
    Other requests: scripts, source maps and probes. At most 300.
    """
    skipped: list[ScanSkipped]
    """
    Paths that were skipped. `tripwire`: your own tripwire was found where you placed it.
    """
    skipped_more: int
    """
    How many more were skipped.
    """
    started_at: str | None
    status: str
    third_party: list[str]
    """
    Other hosts whose scripts the pages load. They were not looked at.
    """
    trigger: str
    warnings: NotRequired[Warnings]


class ScanList(TypedDict):
    data: list[Scan]
    next_cursor: NotRequired[NextCursor]


class SelectionReplayResult(TypedDict):
    events: int
    """
    Events selected.
    """
    queued: int
    """
    Deliveries queued.
    """
    run_id: str | None
    """
    `null` for a dry run.
    """
    truncated: Literal[False]
    warnings: NotRequired[Warnings]


class SentEvent(EventRow):
    warnings: NotRequired[Warnings]


class SignatureExplanation(TypedDict):
    """
    SignatureExplanation compares the signature of an event with the one that the secrets make.
    """

    age_seconds: int | None
    """
    Seconds from the signed time to the time of receipt, negative for a time in the future.
    """
    event_id: EventId
    findings: list[SignatureFinding]
    """
    Probable causes. Empty if the signature is accepted and the event was not rejected.
    """
    headers: list[Header]
    """
    The headers that the verification reads, with their values as received.
    """
    object: Literal["signature"]
    reason: str | None
    received_prefix: str | None
    """
    The first 8 characters of the first signature in the request.
    """
    scheme: str
    secrets: list[SecretResult]
    signed_at: str | None
    signed_content: str | None
    """
    The signed bytes, up to 64 KiB. `null` if a part of them is missing from the request.
    """
    signed_content_encoding: BodyEncoding
    signed_content_masked: bool
    """
    A token of an ingest URL in it is masked.
    """
    signed_content_truncated: bool
    signed_size_bytes: int | None
    timestamp: str | None
    """
    The signed time as received.
    """
    tolerance_seconds: int | None
    """
    `null` if the scheme signs no time.
    """
    url: str | None
    """
    The address that Twilio is assumed to have called, which its signature covers. It is tried with and without the port; `signed_content` begins with the spelling that was signed, otherwise with this one. Its token is masked for read-only and agent keys. `null` for other schemes.
    """
    verdict: str
    """
    What the endpoint's current verification makes of the request.
    """


class SigningInput(TypedDict):
    algorithm: NotRequired[Literal["hmac-sha256", "ed25519"]]
    """
    Default `hmac-sha256`. Another than the current one replaces the secret at once.
    """
    scheme: NotRequired[Literal["standard_webhooks"]]
    schemes: NotRequired[list[SigningSchemeInput] | None]
    """
    By what deliveries are signed: by all of these at once. Replaced as a whole; `null` and `[]` stand for `standard_webhooks` alone. Not for `s3` and `sqs`, which get no signatures.
    """
    secret: NotRequired[str]
    """
    `whsec_` and the base64 of 24 to 64 bytes, or `whsk_` and the base64 of an Ed25519 key, for a secret from another relay. It replaces the current secret at once; `rotate_secret` keeps both for a while.
    """


class SourceStatus(TypedDict):
    """
    SourceStatus is how far the source of an endpoint is read.
    """

    at: Time
    error: str | None
    """
    What is wrong, in words that name what a person can change.
    """
    lag: int
    """
    Records that are not read yet.
    """


class StreamEvent(TypedDict):
    """
    StreamEvent is an event that was accepted.
    """

    body: StreamBody
    headers: HeaderPairs
    headers_base64: NotRequired[HeadersBase64]
    id: EventId
    method: str
    path: str
    """
    `/`, and the query of the request.
    """
    received_at: Time
    size: int
    """
    Of the body.
    """
    truncated: bool
    """
    The body is larger than 1 MiB.
    """
    type: str | None


StreamGap = TypedDict(
    "StreamGap",
    {
        "from": Time,
        "reason": str,
    },
)


class Tenant(TypedDict):
    """
    Tenant is a customer of yours. Endpoints with its name, and keys that are restricted to it, belong to it.
    """

    allowance_events: int | None
    """
    Agreed events of all its endpoints a month, for its usage. Events above it are accepted. `null`: none.
    """
    created_at: Time
    endpoint_id: str | None
    """
    The endpoint that events sent to the tenant go to; `null` before the first one.
    """
    endpoints: int
    """
    Number of its endpoints.
    """
    limits: TenantLimits
    metadata: dict[str, str]
    name: str
    """
    Printable characters, for people. Default: empty.
    """
    object: Literal["tenant"]
    portal: TenantPortal | None
    """
    How its portal looks. `null`: the defaults.
    """
    tenant: TenantName
    updated_at: Time
    warnings: NotRequired[Warnings]


class TenantInput(TypedDict):
    """
    Tenant is a customer of yours. Endpoints with its name, and keys that are restricted to it, belong to it.
    """

    allowance_events: NotRequired[int | None]
    """
    Agreed events of all its endpoints a month, for its usage. Events above it are accepted. `null`: none.
    """
    limits: NotRequired[TenantLimitsInput | None]
    """
    What the tenant may use at most. Above a limit the answer is 429 and names it.
    """
    metadata: NotRequired[MetadataInput | None]
    name: NotRequired[str]
    """
    Printable characters, for people. Default: empty.
    """
    portal: NotRequired[TenantPortalInput | None]
    """
    How its portal looks. `null`: the defaults.
    """


class TenantKey(TypedDict):
    """
    TenantKey is an API key of a tenant. It reaches the endpoints of the tenant, and nothing else of your account.
    """

    agent: bool
    """
    `true`: for an agent, whose changes a person has to approve. Default `false`.
    """
    created_at: Time
    expires_at: str | None
    """
    When the key ends; `null`: it does not.
    """
    id: KeyId
    key: NotRequired[str]
    """
    The key. Only in the answer that creates it.
    """
    last4: str
    name: str
    object: Literal["key"]
    revoked_at: str | None
    scope: str
    tenant: TenantName


class TenantKeyList(TypedDict):
    data: list[TenantKey]
    next_cursor: NotRequired[NextCursor]


class TenantList(TypedDict):
    data: list[Tenant]
    next_cursor: NotRequired[NextCursor]


TransformationOp = TypedDict(
    "TransformationOp",
    {
        "at": NotRequired[TransformationPath],
        "expr": NotRequired[str],
        "from": NotRequired[str],
        "key": NotRequired[str],
        "name": NotRequired[str],
        "on_conflict": NotRequired[str],
        "op": str,
        "path": NotRequired[TransformationPath],
        "paths": NotRequired[list[TransformationPath]],
        "required": NotRequired[bool],
        "to": NotRequired[TransformationPath],
        "value": NotRequired[Any],
        "when": NotRequired[str],
    },
)


TransformationOps: TypeAlias = list[TransformationOp]
"""
Operations on the stored body, one after the other, with at most 64 KiB of JSON together. For sent events the
stored body is the envelope `{id, type, timestamp, data}`. Filters see it before, the signature covers the
result. Order of members, text of numbers and of strings stay as they are; white space is left out. A body that
only `header`, `path`, `method` and `cancel` look at is delivered as it is stored, JSON or not.

If the body is not JSON, or an operation fails, the delivery ends `failed`, `transform_failed`, without a
request. So it does for what parsers read differently: duplicate members, invalid UTF-8, half of a surrogate
pair, nesting deeper than 64 (of sent events: of their data). The result may have twice the limit for bodies.

"""


class TransformationPreview(TypedDict):
    """
    TransformationPreview is what operations make of a sample.
    """

    bytes_in: int
    bytes_out: int
    cancelled: NotRequired[bool]
    """
    Nothing would be sent: the delivery would end `skipped`, `cancelled_by_rule`.
    """
    error: NotRequired[Failure]
    headers: NotRequired[dict[str, str]]
    """
    Headers that operations set.
    """
    masked: int
    """
    How many credentials in the body of an event were masked before.
    """
    method: NotRequired[str]
    ok: bool
    output: Any
    """
    The result; `null` if the operations fail, or if it has a number that JSON parsers cannot read, such as 1e400.
    """
    output_text: str | None
    """
    The bytes that a destination would get. They keep numbers that your JSON parser may change.
    """
    path: NotRequired[str]
    """
    What an operation appends to the path of the URL, escaped.
    """
    steps: list[TransformationStep]
    """
    What each operation did, up to one that failed.
    """
    warnings: NotRequired[Warnings]


class Tripwire(TypedDict):
    """
    Tripwire is a honeytoken: a fake key, URL or file. Counts are null while the event store is unavailable.
    """

    created_at: Time
    created_by: str
    domain_id: DomainId
    file: TripwireFile | None
    finding_id: str | None
    """
    Its occurrences are the hits. `null` before the first one.
    """
    id: TripwireId
    issued_at: Time
    kind: str
    """
    `key` is an API key, `url` an ingest URL, `file` a file that has one of each.
    """
    label: str
    """
    Printable. Default is the end of the id.
    """
    last_tripped_at: str | None
    object: Literal["tripwire"]
    path: str | None
    """
    Which file, if `kind` is `file`. Default `/.env`.
    """
    placement: str
    """
    Where you put it. If it names a path of the website, leak scans ignore the tripwire there and report it elsewhere.
    """
    snippets: list[TripwireSnippet]
    """
    Texts to plant. Empty whenever `token` is `null`, and for a file.
    """
    status: str
    """
    `tripped`: the present secrets were used, or seen in logs, reports, events or a scan.
    """
    test_finding_id: str | None
    """
    The same, of tests.
    """
    test_until: str | None
    """
    Until when the next use from the address that asked for it is a test.
    """
    token: str | None
    """
    The API key, or the token of the URL. Only in the answers that create and rotate the tripwire; `null` in all others, as are `url` and `file`.
    """
    token_masked: str
    trip_count: int | None
    """
    Uses and sightings, of former secrets too, without tests. After 100 uses in a day, those in one minute count once. `null` while the store does not answer.
    """
    updated_at: Time
    url: str | None
    """
    The ingest URL, of `url` and `file`.
    """
    warnings: NotRequired[Warnings]


class TripwireList(TypedDict):
    data: list[Tripwire]
    next_cursor: NotRequired[NextCursor]


class Usage(TypedDict):
    """
    Usage is what the account has used in a month. Deliveries and attempts are counted at least once.
    """

    allowance: int | None
    """
    Agreed events per month, as of now; `null` if there is none.
    """
    as_of: Time
    attempts: int
    """
    All requests to destinations, counted like deliveries.
    """
    by_endpoint: list[EndpointUsage]
    """
    The 20 endpoints with the most events, largest first.
    """
    bytes: int
    """
    Bytes of the bodies of the events.
    """
    daily: list[UsageDay]
    """
    Every day of the period up to now, oldest first. The days add up to `events`.
    """
    deliveries: int
    """
    Successful requests to destinations. After a failure some may be counted twice, unlike events.
    """
    events: UsedEvents
    overage: Overage
    period_end: Time
    period_start: Time
    projection: Projection
    remaining: int | None


UsageDays = TypedDict(
    "UsageDays",
    {
        "as_of": Time,
        "by_endpoint": list[EndpointDays],
        "daily": list[UsageDay],
        "from": Time,
        "object": Literal["usage_days"],
        "to": Time,
    },
)


class Validation(TypedDict):
    """
    Validation is the response to a body that the request for the change would accept. It does not say whether that would change anything: callers could guess secrets without leaving an audit entry.
    """

    object: Literal["validation"]
    """
    "validation".
    """
    warnings: NotRequired[Warnings]


class VerificationChange(VerificationInput):
    pass


class VerificationCreate(VerificationChange):
    pass


class WaitingEvents(TypedDict):
    """
    WaitingEvents are the newest events with an open delivery.
    """

    data: list[EventRow]
    more: bool


class Attempt(TypedDict):
    """
    Attempt is one request to a destination.
    """

    attempt_number: int
    """
    Number of the attempt for this event and destination, counted through all replays and recovery jobs. The header `relay-attempt` of the request begins with 1 again in each of them.
    """
    delivery_id: DeliveryId
    destination_id: DestinationId
    duration_ms: int
    endpoint_id: EndpointId
    error_code: str | None
    """
    What was wrong with the answer, or why there is none. No attempt has `transform_failed` or `payload_expired`: then no request is made, and they are the `reason` of the delivery.
    """
    error_message: str | None
    event_id: EventId
    id: AttemptId
    next_attempt_at: str | None
    recovery_id: str | None
    remote_ip: str | None
    request: AttemptRequest
    response: AttemptResponse | None
    response_status: int | None
    retry_after_seconds: int | None
    run_id: str | None
    started_at: Time
    status: str
    trace_id: str | None
    """
    The OpenTelemetry trace of the attempt, which the request named in `traceparent`; `null`: it was not traced.
    """
    transformation_version: int
    """
    The version of the endpoint's transformation that made the body; 0: the body was sent as it is stored.
    """
    trigger: str
    ttfb_ms: int


class AttemptList(TypedDict):
    data: list[Attempt]
    next_cursor: NotRequired[NextCursor]


class AuditEntry(TypedDict):
    """
    AuditEntry is one change of the configuration.
    """

    action: str
    """
    What was done, such as `endpoint.created`, `endpoint.updated`, `key.revoked`, `key.used`, `tool.called`.
    """
    actor: AuditActor
    at: Time
    changes: list[str]
    """
    Paths of the members that an update changed, such as `destinations.dst_….enabled`. If there are too many, only the first ones, followed by `…`.
    """
    entity: Entity
    id: str
    object: Literal["audit_entry"]
    related_id: str | None
    """
    Id of a related entity. For an agent's request (`act_…`), the entity that it wants to change; for the change that was then made, the `act_…`.
    """
    remote_ip: str | None
    request_id: str | None
    """
    `X-Request-Id` of the request that made the change.
    """
    use: KeyUse | None
    """
    Only for `key.used`: requests with the key at one node since `at`, over about an hour. Written once a minute.
    """


class AuditEntryList(TypedDict):
    data: list[AuditEntry]
    next_cursor: NotRequired[NextCursor]


class BatchItem(TypedDict):
    """
    BatchItem is the result of one event of a batch: its id and status, or its error.
    """

    error: NotRequired[ErrorDetail]
    id: NotRequired[EventId]
    index: int
    status: NotRequired[EventStatus]


class CountedEvents(TypedDict):
    """
    CountedEvents is the response to GET /v1/events/counts.
    """

    counted: int
    """
    Events that were counted: the newest.
    """
    more: bool
    """
    Older events match, too.
    """
    object: Literal["event_counts"]
    statuses: StatusCounts
    step_seconds: int
    """
    Length of a step of time.
    """
    steps: list[CountedStep]
    """
    Steps with any event, oldest first.
    """


class DestinationInput(TypedDict):
    """
    Destination is where the events of an endpoint are delivered.
    """

    auth: NotRequired[AuthInput | None]
    """
    How requests to the URL are authenticated, beside headers and signature. Merged member by member; null ends it.
    """
    enabled: NotRequired[bool]
    """
    Default `true`.
    """
    filter: NotRequired[FilterInput | None]
    format: NotRequired[Literal["standard", "raw", "cloudevents", "cloudevents_binary"]]
    """
    What a delivery has as its body. `standard`: the stored body, which for an event that was sent through the API is its envelope. `raw`: of such an event `data` alone; another one as `standard`. `cloudevents`: CloudEvents 1.0 in the structured mode, `application/cloudevents+json`; a body that is not JSON is `data_base64`. `cloudevents_binary`: the body as with `raw`, and the attributes in headers `ce-*`; not for `http_batch`, `s3` and `sqs`, where an event has no headers of its own. Default `standard`.
    """
    headers: NotRequired[DestinationHeadersInput | None]
    http_batch: NotRequired[HTTPBatchInput | None]
    """
    Events gather and go to the URL as one JSON array in one request. Merged member by member; null sends a request for each event.
    """
    kafka: NotRequired[KafkaInput | None]
    """
    A topic in your Kafka, in place of a url: each event is a record, acknowledged by all in-sync replicas. Merged member by member.
    """
    max_in_flight: NotRequired[int]
    """
    Maximum number of concurrent requests. Default `64`.
    """
    name: NotRequired[str | None]
    """
    Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused.
    """
    ordering: NotRequired[OrderingInput | None]
    """
    One delivery at a time for each key, in the order in which its events were accepted. Merged member by member; null ends it.
    """
    paused: NotRequired[bool]
    """
    Default `false`.
    """
    pull: NotRequired[PullInput | None]
    """
    Consumers fetch the events themselves and acknowledge them, in place of a url: for applications that cannot be reached. Merged member by member.
    """
    rate_limit: NotRequired[RateLimitInput | None]
    retry_policy: NotRequired[RetryPolicyInput | None]
    """
    In place of the endpoint's. Merged member by member; what is left out in a new one is as in the endpoint. `null`: as the endpoint.
    """
    s3: NotRequired[S3Input | None]
    """
    A bucket of an S3-compatible store, in place of a url: events gather in objects with one JSON object a line. Merged member by member.
    """
    signing: NotRequired[SigningInput | None]
    sqs: NotRequired[SQSInput | None]
    """
    A queue of Amazon SQS or of a service with its API, in place of a url: each event is a message. Merged member by member.
    """
    timeout_seconds: NotRequired[int]
    """
    Time limit of one attempt, in seconds. Default `15`.
    """
    transformation: NotRequired[TransformationInput | None]
    url: NotRequired[DestinationURL]


class DestinationTraffic(TypedDict):
    """
    DestinationTraffic is the traffic of one destination, also of one that was removed.
    """

    day_before: list[MeasuredStep]
    """
    The same steps one day before; empty for a range of more than 24h.
    """
    destination_id: str
    hours: list[MeasuredStep]
    """
    The last 24 hours with any request, oldest first.
    """
    last_hour: MeasuredRequests
    steps: list[MeasuredStep]
    """
    The steps of the range with any request, oldest first.
    """
    total: MeasuredRequests


class EndpointTraffic(TypedDict):
    """
    EndpointTraffic is the response to GET /v1/endpoints/{endpoint}/traffic.
    """

    destinations: list[DestinationTraffic]
    endpoint_id: str
    object: Literal["endpoint_traffic"]
    range: str
    step_seconds: int
    waiting: WaitingEvents


class Error(TypedDict):
    error: ErrorDetail


class Event(TypedDict):
    """
    Event is everything that is known of one event.
    """

    attempts: list[Attempt]
    """
    The newest 200 attempts, oldest first. Response bodies are cut to 1 KiB.
    """
    attempts_truncated: bool
    body: str
    body_encoding: BodyEncoding
    content_type: str | None
    data: NotRequired[EventData]
    deliveries: list[Delivery]
    destinations: EventCounts
    duplicate_of: str | None
    """
    The event of which this one is a duplicate.
    """
    endpoint_id: EndpointId
    expires_at: Time
    headers: dict[str, str]
    """
    Headers by name. Repeated ones are joined with a comma, bytes that are not UTF-8 are U+FFFD.
    """
    headers_base64: NotRequired[HeadersBase64]
    headers_raw: HeaderPairs
    id: EventId
    idempotency_key: str | None
    last_attempt_at: str | None
    method: str
    mismatch: Mismatch | None
    """
    Where the data does not match the newest schema of its type, if the endpoint has `validate`; `null`: nowhere.
    """
    next_attempt_at: str | None
    object: Literal["event"]
    payload_erased_at: str | None
    """
    When the payload was erased on request.
    """
    processing: str
    """
    State of the newest processing receipt, `none` without one.
    """
    query: str
    reason: str | None
    receipt: Receipt | None
    received_at: Time
    remote_ip: str | None
    size_bytes: int
    source: str
    status: EventStatus
    trace_id: str | None
    """
    The OpenTelemetry trace of the event; `null`: it was not traced.
    """
    type: str | None
    verification: str
    """
    How far the origin of the event is proved. `verified`: by the provider's signature. `observed`: the signature is missing or wrong, and the endpoint only observes. `unverified`: the endpoint asks for no signature. `rejected`: the signature is missing or wrong. `sent`: through this API. Deliveries carry it as `relay-verification`.
    """
    why: str
    """
    Explains the status in one sentence, for people. It says so if no attempt is made at `next_attempt_at`, because the endpoint or a destination was deleted, disabled, purged or paused since. A list does not know the last attempt.
    """
    why_details: Why


class EventBatchResult(TypedDict):
    """
    EventBatchResult has the results of a batch, in its order.
    """

    data: list[BatchItem]
    warnings: NotRequired[Warnings]


class EventList(TypedDict):
    data: list[EventRow]
    next_cursor: NotRequired[NextCursor]
    partial: NotRequired[Literal[True]]
    """
    Present if a search ended before its page was full. Continue with the cursor.
    """
    scanned: NotRequired[int]
    """
    Only for a search: events that it compared for this page.
    """
    warnings: NotRequired[Warnings]


class EventType(TypedDict):
    """
    EventType is an entry of the catalogue of your event types.
    """

    created_at: Time
    deprecated: bool
    """
    `true`: new receivers should not use it. Default `false`.
    """
    description: str
    """
    For people; Markdown. Default: empty.
    """
    example: AnyJSON
    group: str
    """
    Groups types in lists. Default: empty.
    """
    internal: bool
    """
    `true`: it is neither in the public catalogue nor in the portal. Default `false`.
    """
    name: EventTypeName
    object: Literal["event_type"]
    schema: EventSchema
    updated_at: Time
    version: int | None
    """
    Number of the newest version of the schema; `null` without one.
    """
    versions: list[EventTypeVersion]
    """
    All versions of the schema, oldest first: the last ten, or those that fit into 240 KiB.
    """
    warnings: NotRequired[Warnings]


class EventTypeList(TypedDict):
    data: list[EventType]
    next_cursor: NotRequired[NextCursor]


class FilterPreview(TypedDict):
    """
    FilterPreview says which of the newest events pass a filter.
    """

    data: list[FilteredEvent]
    """
    Newest first. Erased events are left out, and older ones if their bodies are too large or take too long to read.
    """
    failed: int
    """
    How many have an `error`.
    """
    passed: int
    """
    How many pass.
    """
    warnings: NotRequired[Warnings]


class Finding(TypedDict):
    """
    Finding is a leaked secret, an exposed file or a used tripwire, with where it was seen.
    """

    docs_url: str | None
    """
    Page of the provider about keys of this kind.
    """
    environment: str | None
    """
    Of the newest occurrence.
    """
    fingerprint: str | None
    """
    A keyed hash of the key. `null` if the key could be guessed.
    """
    first_seen: Time
    id: FindingId
    ignore_reason: str | None
    """
    `false_positive`, `used_in_tests` or `accepted_risk`.
    """
    ignore_until: str | None
    """
    When an ignored finding is opened again; `null` for never.
    """
    key_id: str | None
    """
    Id of the API key of this service that was found.
    """
    kind: str
    last_seen: Time
    locations: list[FindingLocation]
    """
    Where it was seen, the newest first.
    """
    masked: str | None
    """
    The beginning and the end of the key.
    """
    name: str
    """
    Name of the rule.
    """
    note: str | None
    object: Literal["finding"]
    occurrences: int
    """
    How often it was seen.
    """
    provider: str | None
    """
    Whose key it is.
    """
    regressed_at: str | None
    """
    When the service last opened it again because the key was still seen.
    """
    release: str | None
    """
    Of the newest occurrence.
    """
    resolution: str | None
    """
    `revoked`, `removed` or `false_positive`.
    """
    resolved_at: str | None
    rule: str
    """
    Id of the rule that found it; `flood` if a sender reports too many findings.
    """
    severity: FindingSeverity
    sources: list[FindingSource]
    status: str
    test: bool
    """
    `true` if only test keys were seen.
    """
    unverified: bool
    """
    `true` if only browsers or events without a verified signature have reported it.
    """
    updated_by: str | None
    """
    Id of the person or the API key that changed it last.
    """
    version: int
    """
    Counts the changes.
    """
    warnings: NotRequired[Warnings]


class FindingList(TypedDict):
    data: list[Finding]
    next_cursor: NotRequired[NextCursor]


class Overview(TypedDict):
    """
    Overview is what needs a person now, and the traffic of the last day.
    """

    at: Time
    needs: OverviewNeeds
    object: Literal["overview"]
    traffic: OverviewTraffic | None
    """
    Null while the event store does not answer.
    """


class Pulled(TypedDict):
    """
    Pulled is the answer to a pull.
    """

    data: list[PulledEvent]


class Transformation(TypedDict):
    """
    Transformation has the operations that make the bodies of deliveries.
    """

    ops: TransformationOps


class Destination(TypedDict):
    """
    Destination is where the events of an endpoint are delivered.
    """

    auth: NotRequired[Auth]
    enabled: bool
    """
    Default `true`.
    """
    filter: Filter | None
    format: str
    """
    What a delivery has as its body. `standard`: the stored body, which for an event that was sent through the API is its envelope. `raw`: of such an event `data` alone; another one as `standard`. `cloudevents`: CloudEvents 1.0 in the structured mode, `application/cloudevents+json`; a body that is not JSON is `data_base64`. `cloudevents_binary`: the body as with `raw`, and the attributes in headers `ce-*`; not for `http_batch`, `s3` and `sqs`, where an event has no headers of its own. Default `standard`.
    """
    headers: dict[str, str]
    """
    Headers that are added to each delivery. Credentials are masked.
    """
    http_batch: NotRequired[HTTPBatch]
    id: DestinationId
    kafka: NotRequired[Kafka]
    max_in_flight: int
    """
    Maximum number of concurrent requests. Default `64`.
    """
    name: str | None
    """
    Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused.
    """
    object: Literal["destination"]
    ordering: NotRequired[Ordering]
    paused: bool
    """
    Default `false`.
    """
    pull: NotRequired[Pull]
    rate_limit: RateLimit | None
    retry_policy: RetryPolicy | None
    """
    In place of the endpoint's. Merged member by member; what is left out in a new one is as in the endpoint. `null`: as the endpoint.
    """
    s3: NotRequired[S3]
    signing: SigningType2
    sqs: NotRequired[SQS]
    state: str
    """
    What happens to new deliveries. `active`: they are sent; `held`: they wait for the circuit breaker's next probe; `paused`: they wait until the destination is unpaused; `disabled`: none are created.
    """
    state_reason: str | None
    timeout_seconds: int
    """
    Time limit of one attempt, in seconds. Default `15`.
    """
    transformation: Transformation | None
    """
    In place of the endpoint's. `null`: as the endpoint. No operations: bodies are delivered as they are stored.
    """
    url: str
    warnings: NotRequired[Warnings]


class DestinationCreate(DestinationInput):
    rate_limit: NotRequired[RateLimitCreate | None]


class DestinationEntry(DestinationInput):
    """
    An entry of the full set. With the `id` of a current destination it is merged into that one and needs no `url`.
    """

    id: NotRequired[DestinationId]


class Endpoint(TypedDict):
    """
    Endpoint receives the events of a provider or an application, and has the destinations to which they are delivered.
    """

    alerts: EndpointAlerts
    allow_headers: list[str]
    """
    Received headers to forward: names, or their beginnings, which end in a hyphen, such as `X-Shop-`. Where `verification` is that of a known provider, the headers that it sends are forwarded, and these. Otherwise all are but `Authorization`, `Cookie` and `X-Api-Key`, or only these if there are some. Headers of the content are always forwarded; those by which a sender could pose as someone else never are.
    """
    created_at: Time
    dedup: Dedup | None
    """
    Recognises repeated requests of the provider. A request with the key of an earlier one is stored as `skipped` (`duplicate`) and not delivered. In a cluster, keys are as durable as its Redis: when that starts empty, a repeated request is delivered again. A relay with its engines inside keeps them in a file. The default of a new endpoint depends on the provider, such as `header:X-GitHub-Delivery`; `null` for none.
    """
    description: str | None
    destinations: list[Destination]
    enabled: bool
    """
    `false`: the ingest URL gets 404 and sends are refused. Stored events stay, and deliveries that wait go on: `paused` holds them, and `enabled: false` of a destination ends them. Default `true`.
    """
    id: EndpointId
    ingest_limit: IngestLimit | None
    ingest_url: str
    """
    URL to which the provider posts events. Anyone who knows it can send events, so read-only keys and agent keys see its token as `****` and four characters. `rotate-token` creates a new one. Challenges, with which a provider checks the URL (Slack's `url_verification`, `hub.challenge`, Dropbox's `challenge`), are answered before any check and not stored: an answered challenge does not show that the secret of `verification` is right.
    """
    keep_method: bool
    """
    Deliver received events with the method they came with (`PUT`, `PATCH` or `DELETE`). Without it every delivery is a `POST`: no provider signs the method. Default `false`.
    """
    metadata: dict[str, str]
    name: str
    """
    Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused. Default: the last eight characters of the id.
    """
    object: Literal["endpoint"]
    paused: bool
    """
    `true`: events are stored and held until the endpoint is unpaused. Default `false`.
    """
    provider: str
    """
    Default `generic`.
    """
    reconcile: Reconcile | None
    """
    How events that the provider could not deliver are fetched from its API: for `stripe` and `github`. `null` ends it.
    """
    reconciliation: Reconciliation | None
    """
    How the last look at the provider ended; `null` before, without `reconcile`, and in lists.
    """
    response: Response
    retry_policy: RetryPolicy
    scan_payloads: bool
    """
    Look for secrets in the bodies of events, and in headers that carry no credentials. What is found is a finding with the source `event`.
    """
    source: Source | None
    """
    Where the endpoint reads events from, beside `ingest_url`. `null` ends it.
    """
    source_status: SourceStatus | None
    """
    How far the source is read; `null` while that is not known, and in lists.
    """
    tenant: NotRequired[TenantName]
    transformation: Transformation | None
    """
    `null`: bodies are delivered as they are stored.
    """
    transformation_version: int
    """
    Counts the changes of `transformation`; 0: it never had one.
    """
    transformation_versions: list[TransformationVersion]
    """
    When and by whom the newest versions were made, newest first.
    """
    type_source: str | None
    """
    Where the type of a received event comes from: `body:$.type`, `header:X-GitHub-Event` or `const:order.created`. Up to four alternatives, separated by `|`; the first one that yields a type is used. Values of more than 128 bytes, or with spaces or invisible characters, are not types. The default depends on the provider.
    """
    updated_at: Time
    validate: str
    """
    What happens to an event whose data does not match the newest schema of its type in the catalogue. `warn` accepts it with a warning, `reject` answers a send with 400. Both mark the event with `mismatch`; received events are always accepted.
    """
    verification: Verification | None
    warnings: NotRequired[Warnings]


class EndpointCreate(TypedDict):
    """
    Endpoint receives the events of a provider or an application, and has the destinations to which they are delivered.
    """

    alerts: NotRequired[EndpointAlertsInput | None]
    """
    Settings in which the endpoint differs from the account. `null` removes all of them.
    """
    allow_headers: NotRequired[list[AllowHeader] | None]
    """
    Received headers to forward: names, or their beginnings, which end in a hyphen, such as `X-Shop-`. Where `verification` is that of a known provider, the headers that it sends are forwarded, and these. Otherwise all are but `Authorization`, `Cookie` and `X-Api-Key`, or only these if there are some. Headers of the content are always forwarded; those by which a sender could pose as someone else never are.
    """
    dedup: NotRequired[DedupInput | None]
    """
    Recognises repeated requests of the provider. A request with the key of an earlier one is stored as `skipped` (`duplicate`) and not delivered. In a cluster, keys are as durable as its Redis: when that starts empty, a repeated request is delivered again. A relay with its engines inside keeps them in a file. The default of a new endpoint depends on the provider, such as `header:X-GitHub-Delivery`; `null` for none.
    """
    description: NotRequired[str | None]
    destinations: NotRequired[list[DestinationURL | DestinationCreate]]
    enabled: NotRequired[bool]
    """
    `false`: the ingest URL gets 404 and sends are refused. Stored events stay, and deliveries that wait go on: `paused` holds them, and `enabled: false` of a destination ends them. Default `true`.
    """
    ingest_limit: NotRequired[IngestLimitCreate | None]
    keep_method: NotRequired[bool]
    """
    Deliver received events with the method they came with (`PUT`, `PATCH` or `DELETE`). Without it every delivery is a `POST`: no provider signs the method. Default `false`.
    """
    metadata: NotRequired[MetadataInput | None]
    name: NotRequired[str]
    """
    Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused. Default: the last eight characters of the id.
    """
    paused: NotRequired[bool]
    """
    `true`: events are stored and held until the endpoint is unpaused. Default `false`.
    """
    provider: NotRequired[
        Literal[
            "generic",
            "stripe",
            "github",
            "shopify",
            "slack",
            "twilio",
            "standard_webhooks",
            "hmac",
            "adyen",
            "airwallex",
            "bitbucket",
            "cal_com",
            "calendly",
            "chargebee",
            "clerk",
            "coinbase_commerce",
            "discord",
            "docusign",
            "figma",
            "gitlab",
            "hubspot",
            "intercom",
            "jira",
            "line",
            "linear",
            "liveblocks",
            "mailgun",
            "meta",
            "mux",
            "notion",
            "openai",
            "paddle",
            "pagerduty",
            "paypal",
            "postmark",
            "razorpay",
            "replicate",
            "resend",
            "sendgrid",
            "sentry",
            "sns",
            "square",
            "supabase",
            "svix",
            "telnyx",
            "twitch",
            "typeform",
            "vercel",
            "woocommerce",
            "workos",
            "xero",
            "zendesk",
            "zoom",
        ]
    ]
    """
    Default `generic`.
    """
    reconcile: NotRequired[ReconcileInput | None]
    """
    How events that the provider could not deliver are fetched from its API: for `stripe` and `github`. `null` ends it.
    """
    response: NotRequired[ResponseInput | None]
    """
    Response to the provider after an event was stored. `null` resets it to the default.
    """
    retry_policy: NotRequired[RetryPolicyInput | None]
    """
    When failed deliveries are tried again. Members of another strategy than the resulting one are ignored. `null` resets the policy to its defaults.
    """
    scan_payloads: NotRequired[ScanPayloads]
    source: NotRequired[SourceInput | None]
    """
    Where the endpoint reads events from, beside `ingest_url`. `null` ends it.
    """
    tenant: NotRequired[str | None]
    """
    Tenant that the endpoint belongs to. It is set when the endpoint is created, and never changes.
    """
    transformation: NotRequired[TransformationInput | None]
    type_source: NotRequired[str | None]
    """
    Where the type of a received event comes from: `body:$.type`, `header:X-GitHub-Event` or `const:order.created`. Up to four alternatives, separated by `|`; the first one that yields a type is used. Values of more than 128 bytes, or with spaces or invisible characters, are not types. The default depends on the provider.
    """
    url: NotRequired[DestinationURL]
    validate: NotRequired[EventValidation]
    verification: NotRequired[VerificationCreate | None]


class EndpointList(TypedDict):
    data: list[Endpoint]
    next_cursor: NotRequired[NextCursor]


class EndpointUpdate(TypedDict):
    """
    Endpoint receives the events of a provider or an application, and has the destinations to which they are delivered.
    """

    alerts: NotRequired[EndpointAlertsInput | None]
    """
    Settings in which the endpoint differs from the account. `null` removes all of them.
    """
    allow_headers: NotRequired[list[AllowHeader] | None]
    """
    Received headers to forward: names, or their beginnings, which end in a hyphen, such as `X-Shop-`. Where `verification` is that of a known provider, the headers that it sends are forwarded, and these. Otherwise all are but `Authorization`, `Cookie` and `X-Api-Key`, or only these if there are some. Headers of the content are always forwarded; those by which a sender could pose as someone else never are.
    """
    dedup: NotRequired[DedupInput | None]
    """
    Recognises repeated requests of the provider. A request with the key of an earlier one is stored as `skipped` (`duplicate`) and not delivered. In a cluster, keys are as durable as its Redis: when that starts empty, a repeated request is delivered again. A relay with its engines inside keeps them in a file. The default of a new endpoint depends on the provider, such as `header:X-GitHub-Delivery`; `null` for none.
    """
    description: NotRequired[str | None]
    destinations: NotRequired[list[DestinationURL | DestinationEntry]]
    enabled: NotRequired[bool]
    """
    `false`: the ingest URL gets 404 and sends are refused. Stored events stay, and deliveries that wait go on: `paused` holds them, and `enabled: false` of a destination ends them. Default `true`.
    """
    ingest_limit: NotRequired[IngestLimitChange | None]
    keep_method: NotRequired[bool]
    """
    Deliver received events with the method they came with (`PUT`, `PATCH` or `DELETE`). Without it every delivery is a `POST`: no provider signs the method. Default `false`.
    """
    metadata: NotRequired[MetadataInput | None]
    name: NotRequired[str]
    """
    Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused. Default: the last eight characters of the id.
    """
    paused: NotRequired[bool]
    """
    `true`: events are stored and held until the endpoint is unpaused. Default `false`.
    """
    provider: NotRequired[
        Literal[
            "generic",
            "stripe",
            "github",
            "shopify",
            "slack",
            "twilio",
            "standard_webhooks",
            "hmac",
            "adyen",
            "airwallex",
            "bitbucket",
            "cal_com",
            "calendly",
            "chargebee",
            "clerk",
            "coinbase_commerce",
            "discord",
            "docusign",
            "figma",
            "gitlab",
            "hubspot",
            "intercom",
            "jira",
            "line",
            "linear",
            "liveblocks",
            "mailgun",
            "meta",
            "mux",
            "notion",
            "openai",
            "paddle",
            "pagerduty",
            "paypal",
            "postmark",
            "razorpay",
            "replicate",
            "resend",
            "sendgrid",
            "sentry",
            "sns",
            "square",
            "supabase",
            "svix",
            "telnyx",
            "twitch",
            "typeform",
            "vercel",
            "woocommerce",
            "workos",
            "xero",
            "zendesk",
            "zoom",
        ]
    ]
    """
    Default `generic`.
    """
    reconcile: NotRequired[ReconcileInput | None]
    """
    How events that the provider could not deliver are fetched from its API: for `stripe` and `github`. `null` ends it.
    """
    response: NotRequired[ResponseInput | None]
    """
    Response to the provider after an event was stored. `null` resets it to the default.
    """
    retry_policy: NotRequired[RetryPolicyInput | None]
    """
    When failed deliveries are tried again. Members of another strategy than the resulting one are ignored. `null` resets the policy to its defaults.
    """
    scan_payloads: NotRequired[ScanPayloads]
    source: NotRequired[SourceInput | None]
    """
    Where the endpoint reads events from, beside `ingest_url`. `null` ends it.
    """
    tenant: NotRequired[str | None]
    """
    Tenant that the endpoint belongs to. It is set when the endpoint is created, and never changes.
    """
    transformation: NotRequired[TransformationInput | None]
    type_source: NotRequired[str | None]
    """
    Where the type of a received event comes from: `body:$.type`, `header:X-GitHub-Event` or `const:order.created`. Up to four alternatives, separated by `|`; the first one that yields a type is used. Values of more than 128 bytes, or with spaces or invisible characters, are not types. The default depends on the provider.
    """
    validate: NotRequired[EventValidation]
    verification: NotRequired[VerificationChange | None]


class KeptTransformationVersion(TypedDict):
    """
    KeptTransformationVersion is a version with its operations. Sent back as the transformation of the endpoint, they become its newest version.
    """

    created_at: Time
    created_by: AuditActor
    inherits: NotRequired[bool]
    """
    `true`: the destination has that of the endpoint again.
    """
    operations: int
    """
    How many it has; 0 ended the transformation.
    """
    restorable: bool
    """
    `false`: its operations are not kept any more.
    """
    transformation: Transformation | None
    """
    `null`: it had no operations, or they are not kept any more.
    """
    version: int


class TransformationVersions(TypedDict):
    data: list[KeptTransformationVersion]
