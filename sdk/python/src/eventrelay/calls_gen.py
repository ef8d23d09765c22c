# Code generated from the OpenAPI document by generate.py. DO NOT EDIT.
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict, Unpack, cast

from . import types_gen as types
from .base import Base


class ListAlertsQuery(TypedDict, total=False):
    state: list[str]
    rule: list[str]
    endpoint_id: list[str]
    tenant: list[str]
    limit: int
    cursor: str


class ListAuditQuery(TypedDict, total=False):
    actor: list[str]
    action: list[str]
    entity_id: list[str]
    tenant: list[str]
    since: str
    until: str
    limit: int
    cursor: str


class ListDomainsQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListDrainsQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListDSNsQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListEndpointsQuery(TypedDict, total=False):
    q: str
    tenant: list[str]
    limit: int
    cursor: str


class PullEventsQuery(TypedDict, total=False):
    consumer: str
    max: int
    wait: int


class ReadTrafficQuery(TypedDict, total=False):
    range: str


class ListTransformationVersionsQuery(TypedDict, total=False):
    destination_id: str


class ListEventTypesQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListEventsQuery(TypedDict, total=False):
    endpoint_id: list[str]
    destination_id: list[str]
    run_id: list[str]
    status: list[str]
    type: list[str]
    source: list[str]
    processing: list[str]
    tenant: list[str]
    since: str
    until: str
    q: str
    body: dict[str, str]
    header: dict[str, str]
    limit: int
    cursor: str


class CountEventsQuery(TypedDict, total=False):
    endpoint_id: list[str]
    destination_id: list[str]
    run_id: list[str]
    status: list[str]
    type: list[str]
    source: list[str]
    processing: list[str]
    tenant: list[str]
    since: str
    until: str


class ListAttemptsQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListFindingsQuery(TypedDict, total=False):
    status: list[str]
    severity: list[str]
    source: list[str]
    kind: list[str]
    rule: list[str]
    since: str
    until: str
    limit: int
    cursor: str


class ListOccurrencesQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListFixturesQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ExportFixturesQuery(TypedDict, total=False):
    ids: list[str]


class ListIssuesQuery(TypedDict, total=False):
    status: list[str]
    endpoint_id: list[str]
    destination_id: list[str]
    limit: int
    cursor: str


class ReadOverviewQuery(TypedDict, total=False):
    range: str


class ListRecoveriesQuery(TypedDict, total=False):
    state: list[str]
    endpoint_id: list[str]
    tenant: list[str]
    limit: int
    cursor: str


class ListRecoveryItemsQuery(TypedDict, total=False):
    state: list[str]
    canary: list[str]
    limit: int
    cursor: str


class ListReplaysQuery(TypedDict, total=False):
    state: list[str]
    endpoint_id: list[str]
    tenant: list[str]
    limit: int
    cursor: str


class ListScansQuery(TypedDict, total=False):
    domain_id: list[str]
    limit: int
    cursor: str


class ListTenantsQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListTenantKeysQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListPortalLinksQuery(TypedDict, total=False):
    limit: int
    cursor: str


class ListTripwiresQuery(TypedDict, total=False):
    domain_id: str
    limit: int
    cursor: str


class ReadUsageQuery(TypedDict, total=False):
    period: str
    tenant: str


class ReadDailyUsageQuery(TypedDict, total=False):
    tenant: str


class Calls(Base):
    def read_alerts(self) -> types.AlertSettings:
        """Read the alert settings (GET /v1/alerts)."""
        return cast("types.AlertSettings", self.call("GET", "/v1/alerts"))

    def update_alerts(self, body: types.AlertSettingsInput | None = None) -> types.AlertSettings:
        """Change the alert settings (PATCH /v1/alerts)."""
        return cast("types.AlertSettings", self.call("PATCH", "/v1/alerts", body=body or {}))

    def list_alerts(self, **query: Unpack[ListAlertsQuery]) -> types.AlertList:
        """List alerts (GET /v1/alerts/history)."""
        return cast("types.AlertList", self.call("GET", "/v1/alerts/history", query=query))

    def list_alerts_all(self, **query: Unpack[ListAlertsQuery]) -> Iterator[types.Alert]:
        """The rows of all pages of list_alerts, from cursor on."""
        return self._rows(lambda at: self.list_alerts(**at), query)

    def test_alerts(self, *, idempotency_key: str | None = None) -> types.AlertTestResult:
        """Send a test alert to every channel (POST /v1/alerts/test)."""
        return cast(
            "types.AlertTestResult",
            self.call("POST", "/v1/alerts/test", idempotency_key=idempotency_key or self._new_key()),
        )

    def list_audit(self, **query: Unpack[ListAuditQuery]) -> types.AuditEntryList:
        """List the audit log (GET /v1/audit)."""
        return cast("types.AuditEntryList", self.call("GET", "/v1/audit", query=query))

    def list_audit_all(self, **query: Unpack[ListAuditQuery]) -> Iterator[types.AuditEntry]:
        """The rows of all pages of list_audit, from cursor on."""
        return self._rows(lambda at: self.list_audit(**at), query)

    def list_domains(self, **query: Unpack[ListDomainsQuery]) -> types.DomainList:
        """List domains (GET /v1/domains)."""
        return cast("types.DomainList", self.call("GET", "/v1/domains", query=query))

    def list_domains_all(self, **query: Unpack[ListDomainsQuery]) -> Iterator[types.Domain]:
        """The rows of all pages of list_domains, from cursor on."""
        return self._rows(lambda at: self.list_domains(**at), query)

    def create_domain(
        self, body: types.DomainInput | None = None, *, idempotency_key: str | None = None
    ) -> types.Domain:
        """Add a domain (POST /v1/domains)."""
        return cast(
            "types.Domain",
            self.call("POST", "/v1/domains", body=body or {}, idempotency_key=idempotency_key or self._new_key()),
        )

    def delete_domain(self, domain_id: str) -> types.Deleted:
        """Delete a domain (DELETE /v1/domains/{domain_id})."""
        return cast("types.Deleted", self.call("DELETE", f"/v1/domains/{self._quote(domain_id)}"))

    def read_domain(self, domain_id: str) -> types.Domain:
        """Read a domain (GET /v1/domains/{domain_id})."""
        return cast("types.Domain", self.call("GET", f"/v1/domains/{self._quote(domain_id)}"))

    def verify_domain(
        self, domain_id: str, body: types.DomainVerification | None = None, *, idempotency_key: str | None = None
    ) -> types.Domain:
        """Verify a domain (POST /v1/domains/{domain_id}/verify)."""
        return cast(
            "types.Domain",
            self.call(
                "POST",
                f"/v1/domains/{self._quote(domain_id)}/verify",
                body=body or {},
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def list_drains(self, **query: Unpack[ListDrainsQuery]) -> types.DrainList:
        """List log drains (GET /v1/drains)."""
        return cast("types.DrainList", self.call("GET", "/v1/drains", query=query))

    def list_drains_all(self, **query: Unpack[ListDrainsQuery]) -> Iterator[types.Drain]:
        """The rows of all pages of list_drains, from cursor on."""
        return self._rows(lambda at: self.list_drains(**at), query)

    def create_drain(self, body: types.DrainInput | None = None, *, idempotency_key: str | None = None) -> types.Drain:
        """Create a log drain (POST /v1/drains)."""
        return cast(
            "types.Drain",
            self.call("POST", "/v1/drains", body=body or {}, idempotency_key=idempotency_key or self._new_key()),
        )

    def delete_drain(self, drain_id: str) -> types.Deleted:
        """Delete a log drain (DELETE /v1/drains/{drain_id})."""
        return cast("types.Deleted", self.call("DELETE", f"/v1/drains/{self._quote(drain_id)}"))

    def read_drain(self, drain_id: str) -> types.Drain:
        """Read a log drain (GET /v1/drains/{drain_id})."""
        return cast("types.Drain", self.call("GET", f"/v1/drains/{self._quote(drain_id)}"))

    def update_drain(self, drain_id: str, body: types.DrainUpdate | None = None) -> types.Drain:
        """Change or pause a log drain (PATCH /v1/drains/{drain_id})."""
        return cast("types.Drain", self.call("PATCH", f"/v1/drains/{self._quote(drain_id)}", body=body or {}))

    def rotate_drain(self, drain_id: str, *, idempotency_key: str | None = None) -> types.Drain:
        """Rotate the URL of a log drain (POST /v1/drains/{drain_id}/rotate)."""
        return cast(
            "types.Drain",
            self.call(
                "POST", f"/v1/drains/{self._quote(drain_id)}/rotate", idempotency_key=idempotency_key or self._new_key()
            ),
        )

    def list_dsns(self, **query: Unpack[ListDSNsQuery]) -> types.DSNList:
        """List DSNs (GET /v1/dsns)."""
        return cast("types.DSNList", self.call("GET", "/v1/dsns", query=query))

    def list_dsns_all(self, **query: Unpack[ListDSNsQuery]) -> Iterator[types.DSN]:
        """The rows of all pages of list_dsns, from cursor on."""
        return self._rows(lambda at: self.list_dsns(**at), query)

    def create_dsn(self, body: types.DSNInput | None = None, *, idempotency_key: str | None = None) -> types.DSN:
        """Create a DSN (POST /v1/dsns)."""
        return cast(
            "types.DSN",
            self.call("POST", "/v1/dsns", body=body or {}, idempotency_key=idempotency_key or self._new_key()),
        )

    def delete_dsn(self, dsn_id: str) -> types.Deleted:
        """Delete a DSN (DELETE /v1/dsns/{dsn_id})."""
        return cast("types.Deleted", self.call("DELETE", f"/v1/dsns/{self._quote(dsn_id)}"))

    def read_dsn(self, dsn_id: str) -> types.DSN:
        """Read a DSN (GET /v1/dsns/{dsn_id})."""
        return cast("types.DSN", self.call("GET", f"/v1/dsns/{self._quote(dsn_id)}"))

    def update_dsn(self, dsn_id: str, body: types.DSNUpdate | None = None) -> types.DSN:
        """Change a DSN (PATCH /v1/dsns/{dsn_id})."""
        return cast("types.DSN", self.call("PATCH", f"/v1/dsns/{self._quote(dsn_id)}", body=body or {}))

    def rotate_dsn(self, dsn_id: str, *, idempotency_key: str | None = None) -> types.DSN:
        """Rotate the key of a DSN (POST /v1/dsns/{dsn_id}/rotate)."""
        return cast(
            "types.DSN",
            self.call(
                "POST", f"/v1/dsns/{self._quote(dsn_id)}/rotate", idempotency_key=idempotency_key or self._new_key()
            ),
        )

    def list_endpoints(self, **query: Unpack[ListEndpointsQuery]) -> types.EndpointList:
        """List endpoints (GET /v1/endpoints)."""
        return cast("types.EndpointList", self.call("GET", "/v1/endpoints", query=query))

    def list_endpoints_all(self, **query: Unpack[ListEndpointsQuery]) -> Iterator[types.Endpoint]:
        """The rows of all pages of list_endpoints, from cursor on."""
        return self._rows(lambda at: self.list_endpoints(**at), query)

    def create_endpoint(self, body: types.EndpointCreate, *, idempotency_key: str | None = None) -> types.Endpoint:
        """Create an endpoint (POST /v1/endpoints)."""
        return cast(
            "types.Endpoint",
            self.call("POST", "/v1/endpoints", body=body, idempotency_key=idempotency_key or self._new_key()),
        )

    def validate_endpoint(self, body: types.EndpointCreate) -> types.Validation:
        """Validate a new endpoint (POST /v1/endpoints/validate)."""
        return cast("types.Validation", self.call("POST", "/v1/endpoints/validate", body=body))

    def delete_endpoint(self, endpoint_id: str, *, if_match: str | None = None) -> types.Deleted:
        """Delete an endpoint (DELETE /v1/endpoints/{endpoint_id})."""
        return cast(
            "types.Deleted", self.call("DELETE", f"/v1/endpoints/{self._quote(endpoint_id)}", if_match=if_match)
        )

    def read_endpoint(self, endpoint_id: str) -> types.Endpoint:
        """Read an endpoint (GET /v1/endpoints/{endpoint_id})."""
        return cast("types.Endpoint", self.call("GET", f"/v1/endpoints/{self._quote(endpoint_id)}"))

    def update_endpoint(
        self, endpoint_id: str, body: types.EndpointUpdate | None = None, *, if_match: str | None = None
    ) -> types.Endpoint:
        """Change an endpoint (PATCH /v1/endpoints/{endpoint_id})."""
        return cast(
            "types.Endpoint",
            self.call("PATCH", f"/v1/endpoints/{self._quote(endpoint_id)}", body=body or {}, if_match=if_match),
        )

    def create_destination(
        self, endpoint_id: str, body: types.DestinationCreate, *, idempotency_key: str | None = None
    ) -> types.Destination:
        """Add a destination (POST /v1/endpoints/{endpoint_id}/destinations)."""
        return cast(
            "types.Destination",
            self.call(
                "POST",
                f"/v1/endpoints/{self._quote(endpoint_id)}/destinations",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def delete_destination(
        self, endpoint_id: str, destination_id: str, *, if_match: str | None = None
    ) -> types.Deleted:
        """Remove a destination (DELETE /v1/endpoints/{endpoint_id}/destinations/{destination_id})."""
        return cast(
            "types.Deleted",
            self.call(
                "DELETE",
                f"/v1/endpoints/{self._quote(endpoint_id)}/destinations/{self._quote(destination_id)}",
                if_match=if_match,
            ),
        )

    def update_destination(
        self,
        endpoint_id: str,
        destination_id: str,
        body: types.DestinationInput | None = None,
        *,
        if_match: str | None = None,
    ) -> types.Destination:
        """Change a destination (PATCH /v1/endpoints/{endpoint_id}/destinations/{destination_id})."""
        return cast(
            "types.Destination",
            self.call(
                "PATCH",
                f"/v1/endpoints/{self._quote(endpoint_id)}/destinations/{self._quote(destination_id)}",
                body=body or {},
                if_match=if_match,
            ),
        )

    def acknowledge_events(self, endpoint_id: str, destination_id: str, body: dict[str, Any]) -> types.Acknowledged:
        """Acknowledge pulled events (POST /v1/endpoints/{endpoint_id}/destinations/{destination_id}/ack)."""
        return cast(
            "types.Acknowledged",
            self.call(
                "POST",
                f"/v1/endpoints/{self._quote(endpoint_id)}/destinations/{self._quote(destination_id)}/ack",
                body=body,
            ),
        )

    def list_consumers(self, endpoint_id: str, destination_id: str) -> types.Consumers:
        """List the consumers of a destination (GET /v1/endpoints/{endpoint_id}/destinations/{destination_id}/consumers)."""
        return cast(
            "types.Consumers",
            self.call(
                "GET", f"/v1/endpoints/{self._quote(endpoint_id)}/destinations/{self._quote(destination_id)}/consumers"
            ),
        )

    def pull_events(self, endpoint_id: str, destination_id: str, **query: Unpack[PullEventsQuery]) -> types.Pulled:
        """Pull events of a destination (GET /v1/endpoints/{endpoint_id}/destinations/{destination_id}/pull)."""
        return cast(
            "types.Pulled",
            self.call(
                "GET",
                f"/v1/endpoints/{self._quote(endpoint_id)}/destinations/{self._quote(destination_id)}/pull",
                query=query,
            ),
        )

    def purge_destination(
        self,
        endpoint_id: str,
        destination_id: str,
        body: dict[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> types.Purged:
        """Purge the open deliveries of a destination (POST /v1/endpoints/{endpoint_id}/destinations/{destination_id}/purge)."""
        return cast(
            "types.Purged",
            self.call(
                "POST",
                f"/v1/endpoints/{self._quote(endpoint_id)}/destinations/{self._quote(destination_id)}/purge",
                body=body or {},
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def rotate_secret(
        self,
        endpoint_id: str,
        destination_id: str,
        body: dict[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> types.Destination:
        """Rotate the signing secret (POST /v1/endpoints/{endpoint_id}/destinations/{destination_id}/rotate_secret)."""
        return cast(
            "types.Destination",
            self.call(
                "POST",
                f"/v1/endpoints/{self._quote(endpoint_id)}/destinations/{self._quote(destination_id)}/rotate_secret",
                body=body or {},
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def send_event(
        self, endpoint_id: str, body: types.EventSend, *, idempotency_key: str | None = None
    ) -> types.SentEvent:
        """Send an event (POST /v1/endpoints/{endpoint_id}/events)."""
        return cast(
            "types.SentEvent",
            self.call(
                "POST",
                f"/v1/endpoints/{self._quote(endpoint_id)}/events",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def send_events(
        self, endpoint_id: str, body: types.EventBatch, *, idempotency_key: str | None = None
    ) -> types.EventBatchResult:
        """Send up to 1,000 events (POST /v1/endpoints/{endpoint_id}/events/batch)."""
        return cast(
            "types.EventBatchResult",
            self.call(
                "POST",
                f"/v1/endpoints/{self._quote(endpoint_id)}/events/batch",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def preview_filter(self, endpoint_id: str, body: dict[str, Any]) -> types.FilterPreview:
        """Preview a filter (POST /v1/endpoints/{endpoint_id}/filter/preview)."""
        return cast(
            "types.FilterPreview",
            self.call("POST", f"/v1/endpoints/{self._quote(endpoint_id)}/filter/preview", body=body),
        )

    def get_reconciliation(self, endpoint_id: str) -> types.Reconciliation:
        """Read what was fetched from the provider (GET /v1/endpoints/{endpoint_id}/reconciliation)."""
        return cast(
            "types.Reconciliation", self.call("GET", f"/v1/endpoints/{self._quote(endpoint_id)}/reconciliation")
        )

    def rotate_token(
        self, endpoint_id: str, body: dict[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> types.Endpoint:
        """Rotate the ingest URL (POST /v1/endpoints/{endpoint_id}/rotate-token)."""
        return cast(
            "types.Endpoint",
            self.call(
                "POST",
                f"/v1/endpoints/{self._quote(endpoint_id)}/rotate-token",
                body=body or {},
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def test_endpoint(
        self, endpoint_id: str, body: types.EventTest | None = None, *, idempotency_key: str | None = None
    ) -> types.SentEvent:
        """Send a test event (POST /v1/endpoints/{endpoint_id}/test)."""
        return cast(
            "types.SentEvent",
            self.call(
                "POST",
                f"/v1/endpoints/{self._quote(endpoint_id)}/test",
                body=body or {},
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def read_traffic(self, endpoint_id: str, **query: Unpack[ReadTrafficQuery]) -> types.EndpointTraffic:
        """Read the traffic of an endpoint (GET /v1/endpoints/{endpoint_id}/traffic)."""
        return cast(
            "types.EndpointTraffic", self.call("GET", f"/v1/endpoints/{self._quote(endpoint_id)}/traffic", query=query)
        )

    def preview_transformation(self, endpoint_id: str, body: dict[str, Any]) -> types.TransformationPreview:
        """Preview a transformation (POST /v1/endpoints/{endpoint_id}/transformation/preview)."""
        return cast(
            "types.TransformationPreview",
            self.call("POST", f"/v1/endpoints/{self._quote(endpoint_id)}/transformation/preview", body=body),
        )

    def list_transformation_versions(
        self, endpoint_id: str, **query: Unpack[ListTransformationVersionsQuery]
    ) -> types.TransformationVersions:
        """List the versions of a transformation (GET /v1/endpoints/{endpoint_id}/transformation/versions)."""
        return cast(
            "types.TransformationVersions",
            self.call("GET", f"/v1/endpoints/{self._quote(endpoint_id)}/transformation/versions", query=query),
        )

    def validate_endpoint_change(
        self, endpoint_id: str, body: types.EndpointUpdate | None = None, *, if_match: str | None = None
    ) -> types.Validation:
        """Validate a change of an endpoint (POST /v1/endpoints/{endpoint_id}/validate)."""
        return cast(
            "types.Validation",
            self.call("POST", f"/v1/endpoints/{self._quote(endpoint_id)}/validate", body=body or {}, if_match=if_match),
        )

    def list_event_types(self, **query: Unpack[ListEventTypesQuery]) -> types.EventTypeList:
        """List event types (GET /v1/event_types)."""
        return cast("types.EventTypeList", self.call("GET", "/v1/event_types", query=query))

    def list_event_types_all(self, **query: Unpack[ListEventTypesQuery]) -> Iterator[types.EventType]:
        """The rows of all pages of list_event_types, from cursor on."""
        return self._rows(lambda at: self.list_event_types(**at), query)

    def create_event_type(self, body: types.EventTypeInput, *, idempotency_key: str | None = None) -> types.EventType:
        """Create an event type (POST /v1/event_types)."""
        return cast(
            "types.EventType",
            self.call("POST", "/v1/event_types", body=body, idempotency_key=idempotency_key or self._new_key()),
        )

    def import_event_types(
        self, body: types.OpenAPIDocument, *, idempotency_key: str | None = None
    ) -> types.EventTypesImported:
        """Import event types from an OpenAPI document (POST /v1/event_types/import)."""
        return cast(
            "types.EventTypesImported",
            self.call("POST", "/v1/event_types/import", body=body, idempotency_key=idempotency_key or self._new_key()),
        )

    def export_event_types(self) -> types.OpenAPIDocument:
        """Export event types as an OpenAPI document (GET /v1/event_types/openapi.json)."""
        return cast("types.OpenAPIDocument", self.call("GET", "/v1/event_types/openapi.json"))

    def read_seen_event_types(self) -> types.EventTypesSeen:
        """List the types of recent events (GET /v1/event_types/seen)."""
        return cast("types.EventTypesSeen", self.call("GET", "/v1/event_types/seen"))

    def delete_event_type(self, event_type_name: str) -> types.Deleted:
        """Delete an event type (DELETE /v1/event_types/{event_type_name})."""
        return cast("types.Deleted", self.call("DELETE", f"/v1/event_types/{self._quote(event_type_name)}"))

    def read_event_type(self, event_type_name: str) -> types.EventType:
        """Read an event type (GET /v1/event_types/{event_type_name})."""
        return cast("types.EventType", self.call("GET", f"/v1/event_types/{self._quote(event_type_name)}"))

    def update_event_type(self, event_type_name: str, body: types.EventTypeInput | None = None) -> types.EventType:
        """Change an event type (PATCH /v1/event_types/{event_type_name})."""
        return cast(
            "types.EventType", self.call("PATCH", f"/v1/event_types/{self._quote(event_type_name)}", body=body or {})
        )

    def put_event_type(self, event_type_name: str, body: types.EventTypeInput | None = None) -> types.EventType:
        """Create or replace an event type (PUT /v1/event_types/{event_type_name})."""
        return cast(
            "types.EventType", self.call("PUT", f"/v1/event_types/{self._quote(event_type_name)}", body=body or {})
        )

    def list_events(self, **query: Unpack[ListEventsQuery]) -> types.EventList:
        """List events (GET /v1/events)."""
        return cast("types.EventList", self.call("GET", "/v1/events", query=query))

    def list_events_all(self, **query: Unpack[ListEventsQuery]) -> Iterator[types.EventRow]:
        """The rows of all pages of list_events, from cursor on."""
        return self._rows(lambda at: self.list_events(**at), query)

    def count_events(self, **query: Unpack[CountEventsQuery]) -> types.CountedEvents:
        """Count events (GET /v1/events/counts)."""
        return cast("types.CountedEvents", self.call("GET", "/v1/events/counts", query=query))

    def read_event(self, event_id: str) -> types.Event:
        """Read an event (GET /v1/events/{event_id})."""
        return cast("types.Event", self.call("GET", f"/v1/events/{self._quote(event_id)}"))

    def list_attempts(self, event_id: str, **query: Unpack[ListAttemptsQuery]) -> types.AttemptList:
        """List all attempts of an event (GET /v1/events/{event_id}/attempts)."""
        return cast("types.AttemptList", self.call("GET", f"/v1/events/{self._quote(event_id)}/attempts", query=query))

    def list_attempts_all(self, event_id: str, **query: Unpack[ListAttemptsQuery]) -> Iterator[types.Attempt]:
        """The rows of all pages of list_attempts, from cursor on."""
        return self._rows(lambda at: self.list_attempts(event_id, **at), query)

    def erase_event_payload(self, event_id: str) -> types.PayloadErased:
        """Erase the payload of an event (DELETE /v1/events/{event_id}/payload)."""
        return cast("types.PayloadErased", self.call("DELETE", f"/v1/events/{self._quote(event_id)}/payload"))

    def report_processing(
        self, event_id: str, body: types.ReceiptReport, *, idempotency_key: str | None = None
    ) -> types.ReceiptResult:
        """Report whether the application processed an event (POST /v1/events/{event_id}/processing)."""
        return cast(
            "types.ReceiptResult",
            self.call(
                "POST",
                f"/v1/events/{self._quote(event_id)}/processing",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def replay_event(
        self, event_id: str, body: dict[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> types.ReplayResult:
        """Replay one event (POST /v1/events/{event_id}/replay)."""
        return cast(
            "types.ReplayResult",
            self.call(
                "POST",
                f"/v1/events/{self._quote(event_id)}/replay",
                body=body or {},
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def explain_event_signature(self, event_id: str) -> types.SignatureExplanation:
        """Explain the signature of an event (GET /v1/events/{event_id}/signature)."""
        return cast("types.SignatureExplanation", self.call("GET", f"/v1/events/{self._quote(event_id)}/signature"))

    def list_findings(self, **query: Unpack[ListFindingsQuery]) -> types.FindingList:
        """List findings (GET /v1/findings)."""
        return cast("types.FindingList", self.call("GET", "/v1/findings", query=query))

    def list_findings_all(self, **query: Unpack[ListFindingsQuery]) -> Iterator[types.Finding]:
        """The rows of all pages of list_findings, from cursor on."""
        return self._rows(lambda at: self.list_findings(**at), query)

    def update_findings(
        self, body: types.FindingsUpdate | None = None, *, idempotency_key: str | None = None
    ) -> types.FindingsUpdated:
        """Change the status of many findings (POST /v1/findings/update)."""
        return cast(
            "types.FindingsUpdated",
            self.call(
                "POST", "/v1/findings/update", body=body or {}, idempotency_key=idempotency_key or self._new_key()
            ),
        )

    def read_finding(self, finding_id: str) -> types.Finding:
        """Read a finding (GET /v1/findings/{finding_id})."""
        return cast("types.Finding", self.call("GET", f"/v1/findings/{self._quote(finding_id)}"))

    def update_finding(self, finding_id: str, body: types.FindingChangeInput | None = None) -> types.Finding:
        """Change the state or the note of a finding (PATCH /v1/findings/{finding_id})."""
        return cast("types.Finding", self.call("PATCH", f"/v1/findings/{self._quote(finding_id)}", body=body or {}))

    def list_occurrences(self, finding_id: str, **query: Unpack[ListOccurrencesQuery]) -> types.OccurrenceList:
        """List the occurrences of a finding (GET /v1/findings/{finding_id}/occurrences)."""
        return cast(
            "types.OccurrenceList", self.call("GET", f"/v1/findings/{self._quote(finding_id)}/occurrences", query=query)
        )

    def list_occurrences_all(
        self, finding_id: str, **query: Unpack[ListOccurrencesQuery]
    ) -> Iterator[types.Occurrence]:
        """The rows of all pages of list_occurrences, from cursor on."""
        return self._rows(lambda at: self.list_occurrences(finding_id, **at), query)

    def list_fixtures(self, **query: Unpack[ListFixturesQuery]) -> types.FixtureSummaryList:
        """List fixtures (GET /v1/fixtures)."""
        return cast("types.FixtureSummaryList", self.call("GET", "/v1/fixtures", query=query))

    def list_fixtures_all(self, **query: Unpack[ListFixturesQuery]) -> Iterator[types.FixtureSummary]:
        """The rows of all pages of list_fixtures, from cursor on."""
        return self._rows(lambda at: self.list_fixtures(**at), query)

    def create_fixture(self, body: types.FixtureChangeInput, *, idempotency_key: str | None = None) -> types.Fixture:
        """Create a fixture from an event (POST /v1/fixtures)."""
        return cast(
            "types.Fixture",
            self.call("POST", "/v1/fixtures", body=body, idempotency_key=idempotency_key or self._new_key()),
        )

    def export_fixtures(self, **query: Unpack[ExportFixturesQuery]) -> types.FixtureSuite:
        """Export fixtures as a file (GET /v1/fixtures/export)."""
        return cast("types.FixtureSuite", self.call("GET", "/v1/fixtures/export", query=query))

    def delete_fixture(self, fixture_id: str) -> types.Deleted:
        """Delete a fixture (DELETE /v1/fixtures/{fixture_id})."""
        return cast("types.Deleted", self.call("DELETE", f"/v1/fixtures/{self._quote(fixture_id)}"))

    def read_fixture(self, fixture_id: str) -> types.Fixture:
        """Read a fixture (GET /v1/fixtures/{fixture_id})."""
        return cast("types.Fixture", self.call("GET", f"/v1/fixtures/{self._quote(fixture_id)}"))

    def update_fixture(self, fixture_id: str, body: types.FixtureChangeUpdate | None = None) -> types.Fixture:
        """Change a fixture (PATCH /v1/fixtures/{fixture_id})."""
        return cast("types.Fixture", self.call("PATCH", f"/v1/fixtures/{self._quote(fixture_id)}", body=body or {}))

    def list_issues(self, **query: Unpack[ListIssuesQuery]) -> types.IssueList:
        """List issues (GET /v1/issues)."""
        return cast("types.IssueList", self.call("GET", "/v1/issues", query=query))

    def list_issues_all(self, **query: Unpack[ListIssuesQuery]) -> Iterator[types.Issue]:
        """The rows of all pages of list_issues, from cursor on."""
        return self._rows(lambda at: self.list_issues(**at), query)

    def read_issue(self, issue_id: str) -> types.Issue:
        """Read an issue (GET /v1/issues/{issue_id})."""
        return cast("types.Issue", self.call("GET", f"/v1/issues/{self._quote(issue_id)}"))

    def update_issue(self, issue_id: str, body: types.IssueInput | None = None) -> types.Issue:
        """Change an issue (PATCH /v1/issues/{issue_id})."""
        return cast("types.Issue", self.call("PATCH", f"/v1/issues/{self._quote(issue_id)}", body=body or {}))

    def read_me(self) -> types.Me:
        """Read the API key of this call (GET /v1/me)."""
        return cast("types.Me", self.call("GET", "/v1/me"))

    def read_overview(self, **query: Unpack[ReadOverviewQuery]) -> types.Overview:
        """Read the overview (GET /v1/overview)."""
        return cast("types.Overview", self.call("GET", "/v1/overview", query=query))

    def list_recoveries(self, **query: Unpack[ListRecoveriesQuery]) -> types.RecoveryList:
        """List recovery jobs (GET /v1/recoveries)."""
        return cast("types.RecoveryList", self.call("GET", "/v1/recoveries", query=query))

    def list_recoveries_all(self, **query: Unpack[ListRecoveriesQuery]) -> Iterator[types.Recovery]:
        """The rows of all pages of list_recoveries, from cursor on."""
        return self._rows(lambda at: self.list_recoveries(**at), query)

    def create_recovery(self, body: types.RecoveryInput, *, idempotency_key: str | None = None) -> types.Recovery:
        """Create a recovery job (POST /v1/recoveries)."""
        return cast(
            "types.Recovery",
            self.call("POST", "/v1/recoveries", body=body, idempotency_key=idempotency_key or self._new_key()),
        )

    def read_recovery(self, recovery_id: str) -> types.Recovery:
        """Read a recovery job (GET /v1/recoveries/{recovery_id})."""
        return cast("types.Recovery", self.call("GET", f"/v1/recoveries/{self._quote(recovery_id)}"))

    def act_on_recovery(
        self, recovery_id: str, body: types.RecoveryAction, *, idempotency_key: str | None = None
    ) -> types.Recovery:
        """Start, continue or cancel a recovery job (POST /v1/recoveries/{recovery_id})."""
        return cast(
            "types.Recovery",
            self.call(
                "POST",
                f"/v1/recoveries/{self._quote(recovery_id)}",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def list_recovery_items(self, recovery_id: str, **query: Unpack[ListRecoveryItemsQuery]) -> types.RecoveryItemList:
        """List the deliveries of a recovery job (GET /v1/recoveries/{recovery_id}/items)."""
        return cast(
            "types.RecoveryItemList", self.call("GET", f"/v1/recoveries/{self._quote(recovery_id)}/items", query=query)
        )

    def list_recovery_items_all(
        self, recovery_id: str, **query: Unpack[ListRecoveryItemsQuery]
    ) -> Iterator[types.RecoveryItem]:
        """The rows of all pages of list_recovery_items, from cursor on."""
        return self._rows(lambda at: self.list_recovery_items(recovery_id, **at), query)

    def list_replays(self, **query: Unpack[ListReplaysQuery]) -> types.ReplayRunList:
        """List replay runs (GET /v1/replays)."""
        return cast("types.ReplayRunList", self.call("GET", "/v1/replays", query=query))

    def list_replays_all(self, **query: Unpack[ListReplaysQuery]) -> Iterator[types.ReplayRun]:
        """The rows of all pages of list_replays, from cursor on."""
        return self._rows(lambda at: self.list_replays(**at), query)

    def replay_events(
        self, body: types.ReplayInput, *, idempotency_key: str | None = None
    ) -> types.SelectionReplayResult:
        """Replay a selection (POST /v1/replays)."""
        return cast(
            "types.SelectionReplayResult",
            self.call("POST", "/v1/replays", body=body, idempotency_key=idempotency_key or self._new_key()),
        )

    def read_replay(self, run_id: str) -> types.ReplayRun:
        """Read a replay run (GET /v1/replays/{run_id})."""
        return cast("types.ReplayRun", self.call("GET", f"/v1/replays/{self._quote(run_id)}"))

    def act_on_replay(
        self, run_id: str, body: dict[str, Any], *, idempotency_key: str | None = None
    ) -> types.ReplayRun:
        """Cancel a replay run (POST /v1/replays/{run_id})."""
        return cast(
            "types.ReplayRun",
            self.call(
                "POST",
                f"/v1/replays/{self._quote(run_id)}",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def list_scans(self, **query: Unpack[ListScansQuery]) -> types.ScanList:
        """List leak scans (GET /v1/scans)."""
        return cast("types.ScanList", self.call("GET", "/v1/scans", query=query))

    def list_scans_all(self, **query: Unpack[ListScansQuery]) -> Iterator[types.Scan]:
        """The rows of all pages of list_scans, from cursor on."""
        return self._rows(lambda at: self.list_scans(**at), query)

    def create_scan(self, body: types.ScanInput | None = None, *, idempotency_key: str | None = None) -> types.Scan:
        """Start a leak scan (POST /v1/scans)."""
        return cast(
            "types.Scan",
            self.call("POST", "/v1/scans", body=body or {}, idempotency_key=idempotency_key or self._new_key()),
        )

    def read_scan(self, scan_id: str) -> types.Scan:
        """Read a leak scan (GET /v1/scans/{scan_id})."""
        return cast("types.Scan", self.call("GET", f"/v1/scans/{self._quote(scan_id)}"))

    def read_catalogue_settings(self) -> types.CatalogueSettings:
        """Read who may see the catalogue (GET /v1/settings/catalogue)."""
        return cast("types.CatalogueSettings", self.call("GET", "/v1/settings/catalogue"))

    def update_catalogue_settings(self, body: types.CatalogueSettingsInput | None = None) -> types.CatalogueSettings:
        """Change who may see the catalogue (PATCH /v1/settings/catalogue)."""
        return cast("types.CatalogueSettings", self.call("PATCH", "/v1/settings/catalogue", body=body or {}))

    def read_detection(self) -> types.DetectionSettings:
        """Read your own detection rules (GET /v1/settings/detection)."""
        return cast("types.DetectionSettings", self.call("GET", "/v1/settings/detection"))

    def update_detection(self, body: types.DetectionSettingsInput | None = None) -> types.DetectionSettings:
        """Change your own detection rules (PATCH /v1/settings/detection)."""
        return cast("types.DetectionSettings", self.call("PATCH", "/v1/settings/detection", body=body or {}))

    def try_detection(self, body: dict[str, Any]) -> types.DetectionTry:
        """Try detection rules on a text (POST /v1/settings/detection/try)."""
        return cast("types.DetectionTry", self.call("POST", "/v1/settings/detection/try", body=body))

    def list_tenants(self, **query: Unpack[ListTenantsQuery]) -> types.TenantList:
        """List tenants (GET /v1/tenants)."""
        return cast("types.TenantList", self.call("GET", "/v1/tenants", query=query))

    def list_tenants_all(self, **query: Unpack[ListTenantsQuery]) -> Iterator[types.Tenant]:
        """The rows of all pages of list_tenants, from cursor on."""
        return self._rows(lambda at: self.list_tenants(**at), query)

    def delete_tenant(self, tenant_name: str) -> types.Deleted:
        """Delete a tenant (DELETE /v1/tenants/{tenant_name})."""
        return cast("types.Deleted", self.call("DELETE", f"/v1/tenants/{self._quote(tenant_name)}"))

    def read_tenant(self, tenant_name: str) -> types.Tenant:
        """Read a tenant (GET /v1/tenants/{tenant_name})."""
        return cast("types.Tenant", self.call("GET", f"/v1/tenants/{self._quote(tenant_name)}"))

    def put_tenant(self, tenant_name: str, body: types.TenantInput | None = None) -> types.Tenant:
        """Create or replace a tenant (PUT /v1/tenants/{tenant_name})."""
        return cast("types.Tenant", self.call("PUT", f"/v1/tenants/{self._quote(tenant_name)}", body=body or {}))

    def send_to_tenant(
        self, tenant_name: str, body: types.EventSend, *, idempotency_key: str | None = None
    ) -> types.SentEvent:
        """Send an event to a tenant (POST /v1/tenants/{tenant_name}/events)."""
        return cast(
            "types.SentEvent",
            self.call(
                "POST",
                f"/v1/tenants/{self._quote(tenant_name)}/events",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def send_batch_to_tenant(
        self, tenant_name: str, body: types.EventBatch, *, idempotency_key: str | None = None
    ) -> types.EventBatchResult:
        """Send up to 1,000 events to a tenant (POST /v1/tenants/{tenant_name}/events/batch)."""
        return cast(
            "types.EventBatchResult",
            self.call(
                "POST",
                f"/v1/tenants/{self._quote(tenant_name)}/events/batch",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def list_tenant_keys(self, tenant_name: str, **query: Unpack[ListTenantKeysQuery]) -> types.TenantKeyList:
        """List the API keys of a tenant (GET /v1/tenants/{tenant_name}/keys)."""
        return cast(
            "types.TenantKeyList", self.call("GET", f"/v1/tenants/{self._quote(tenant_name)}/keys", query=query)
        )

    def list_tenant_keys_all(self, tenant_name: str, **query: Unpack[ListTenantKeysQuery]) -> Iterator[types.TenantKey]:
        """The rows of all pages of list_tenant_keys, from cursor on."""
        return self._rows(lambda at: self.list_tenant_keys(tenant_name, **at), query)

    def create_tenant_key(
        self, tenant_name: str, body: types.TenantKeyInput, *, idempotency_key: str | None = None
    ) -> types.TenantKey:
        """Create an API key for a tenant (POST /v1/tenants/{tenant_name}/keys)."""
        return cast(
            "types.TenantKey",
            self.call(
                "POST",
                f"/v1/tenants/{self._quote(tenant_name)}/keys",
                body=body,
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def revoke_tenant_key(self, tenant_name: str, key_id: str) -> types.Deleted:
        """Revoke an API key of a tenant (DELETE /v1/tenants/{tenant_name}/keys/{key_id})."""
        return cast(
            "types.Deleted", self.call("DELETE", f"/v1/tenants/{self._quote(tenant_name)}/keys/{self._quote(key_id)}")
        )

    def list_portal_links(self, tenant_name: str, **query: Unpack[ListPortalLinksQuery]) -> types.PortalLinkList:
        """List the portal links of a tenant (GET /v1/tenants/{tenant_name}/portal_links)."""
        return cast(
            "types.PortalLinkList",
            self.call("GET", f"/v1/tenants/{self._quote(tenant_name)}/portal_links", query=query),
        )

    def list_portal_links_all(
        self, tenant_name: str, **query: Unpack[ListPortalLinksQuery]
    ) -> Iterator[types.PortalLink]:
        """The rows of all pages of list_portal_links, from cursor on."""
        return self._rows(lambda at: self.list_portal_links(tenant_name, **at), query)

    def create_portal_link(
        self, tenant_name: str, body: types.PortalLinkInput | None = None, *, idempotency_key: str | None = None
    ) -> types.PortalLink:
        """Create a link to the portal of a tenant (POST /v1/tenants/{tenant_name}/portal_links)."""
        return cast(
            "types.PortalLink",
            self.call(
                "POST",
                f"/v1/tenants/{self._quote(tenant_name)}/portal_links",
                body=body or {},
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def end_portal_link(self, tenant_name: str, link_id: str) -> types.Deleted:
        """End a link to the portal or its session (DELETE /v1/tenants/{tenant_name}/portal_links/{link_id})."""
        return cast(
            "types.Deleted",
            self.call("DELETE", f"/v1/tenants/{self._quote(tenant_name)}/portal_links/{self._quote(link_id)}"),
        )

    def test_tenant(
        self, tenant_name: str, body: types.EventTest | None = None, *, idempotency_key: str | None = None
    ) -> types.SentEvent:
        """Send a test event to a tenant (POST /v1/tenants/{tenant_name}/test)."""
        return cast(
            "types.SentEvent",
            self.call(
                "POST",
                f"/v1/tenants/{self._quote(tenant_name)}/test",
                body=body or {},
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def list_tripwires(self, **query: Unpack[ListTripwiresQuery]) -> types.TripwireList:
        """List tripwires (GET /v1/tripwires)."""
        return cast("types.TripwireList", self.call("GET", "/v1/tripwires", query=query))

    def list_tripwires_all(self, **query: Unpack[ListTripwiresQuery]) -> Iterator[types.Tripwire]:
        """The rows of all pages of list_tripwires, from cursor on."""
        return self._rows(lambda at: self.list_tripwires(**at), query)

    def create_tripwire(
        self, body: types.TripwireInput | None = None, *, idempotency_key: str | None = None
    ) -> types.Tripwire:
        """Create a tripwire (POST /v1/tripwires)."""
        return cast(
            "types.Tripwire",
            self.call("POST", "/v1/tripwires", body=body or {}, idempotency_key=idempotency_key or self._new_key()),
        )

    def delete_tripwire(self, tripwire_id: str) -> types.Deleted:
        """Delete a tripwire (DELETE /v1/tripwires/{tripwire_id})."""
        return cast("types.Deleted", self.call("DELETE", f"/v1/tripwires/{self._quote(tripwire_id)}"))

    def read_tripwire(self, tripwire_id: str) -> types.Tripwire:
        """Read a tripwire (GET /v1/tripwires/{tripwire_id})."""
        return cast("types.Tripwire", self.call("GET", f"/v1/tripwires/{self._quote(tripwire_id)}"))

    def rotate_tripwire(self, tripwire_id: str, *, idempotency_key: str | None = None) -> types.Tripwire:
        """Give a tripwire new secrets (POST /v1/tripwires/{tripwire_id}/rotate)."""
        return cast(
            "types.Tripwire",
            self.call(
                "POST",
                f"/v1/tripwires/{self._quote(tripwire_id)}/rotate",
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def test_tripwire(self, tripwire_id: str, *, idempotency_key: str | None = None) -> types.Tripwire:
        """Expect a test of a tripwire (POST /v1/tripwires/{tripwire_id}/test)."""
        return cast(
            "types.Tripwire",
            self.call(
                "POST",
                f"/v1/tripwires/{self._quote(tripwire_id)}/test",
                idempotency_key=idempotency_key or self._new_key(),
            ),
        )

    def read_usage(self, **query: Unpack[ReadUsageQuery]) -> types.Usage:
        """Read the usage of a month, and its projection (GET /v1/usage)."""
        return cast("types.Usage", self.call("GET", "/v1/usage", query=query))

    def read_daily_usage(self, **query: Unpack[ReadDailyUsageQuery]) -> types.UsageDays:
        """Read the usage of the last 30 days (GET /v1/usage/daily)."""
        return cast("types.UsageDays", self.call("GET", "/v1/usage/daily", query=query))
