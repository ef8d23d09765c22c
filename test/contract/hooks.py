"""What schemathesis cannot know: what a schema cannot say, and how to write bodies of one JSON value a line."""

import itertools
import json
from datetime import datetime, timedelta, timezone

import schemathesis
from hypothesis import strategies as st

# No pattern can say whether a DNS name resolves, and a setting decides which private URLs are allowed.
schemathesis.openapi.format(
    "https-url",
    st.from_regex(r"https://[a-z]{1,12}\.(com|net|org)(:8443)?(/[a-z0-9._~-]{0,12}){0,3}(\?[a-z]=[a-z0-9]{0,8})?", fullmatch=True),
)

keys = itertools.count()


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@schemathesis.hook
def map_headers(ctx, headers):
    """The id of an event is one that a stream gave out."""
    if headers and "Last-Event-ID" in headers:
        headers = {name: value for name, value in headers.items() if name != "Last-Event-ID"}
    return headers


@schemathesis.hook
def map_query(ctx, query):
    """A cursor is what a list gave out: links bring them, and one that is made up is refused."""
    if query and "cursor" in query:
        query = {name: value for name, value in query.items() if name != "cursor"}
    return query


@schemathesis.hook
def before_call(ctx, case, kwargs):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    number_key(case)
    if case.query and case.query.get("since") and case.query.get("until"):
        del case.query["until"]  # it must be later
    operation = case.operation.definition.raw.get("operationId")
    if operation in ("replayEvents", "createRecovery") and isinstance(case.body, dict):
        case.body = recent(case.body)
    # A released document cannot be narrowed: it says in words what else is required.
    if operation == "createDSN" and isinstance(case.body, dict):
        case.body = {"platform": "server", **case.body}
    if operation in ("updateFinding", "updateFindings") and isinstance(case.body, dict):
        case.body = with_reason(case.body)


def with_reason(body):
    """A finding is resolved or ignored for a reason."""
    for status, member, reason in (("resolved", "resolution", "removed"), ("ignored", "ignore_reason", "accepted_risk")):
        if body.get("status") == status:
            body = {**body, member: body.get(member) or reason}
    return body


def number_key(case):
    """A key names one body, and generated ones come twice."""
    key = case.headers.get("Idempotency-Key") if case.headers else None
    if isinstance(key, str) and 0 < len(key) < 240:
        case.headers["Idempotency-Key"] = f"{key}{next(keys)}"


def recent(body):
    """What is sent again was received in the last days, and goes to destinations of its own endpoint."""
    now = datetime.now(timezone.utc)
    body = json.loads(json.dumps(body))
    for part in (body, body.get("filter")):
        if not isinstance(part, dict):
            continue
        for name, ago in (("since", timedelta(days=2)), ("until", timedelta(hours=1))):
            if name in part:
                part[name] = (now - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
        if part.pop("destination_id", None) and not {"endpoint_id", "status", "type"} & part.keys():
            part["status"] = "failed"
    return body
