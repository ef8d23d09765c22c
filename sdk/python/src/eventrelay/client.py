"""The client: generated calls, batches and streams."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import types_gen as types
from .base import APIError, temporary
from .calls_gen import Calls

__all__ = ["APIError", "Relay", "StreamEnded", "Streamed"]

MAX_BATCH_EVENTS = 1000
MAX_BATCH_BYTES = 5 << 20
FOR_NOW = {"rate_limited", "unavailable", "internal", "timeout"}
SILENCE = 45.0  # seconds of a stream without a byte, which has one every 15
MAX_STREAM_LINE = 16 << 20  # bytes; an event has at most 1 MiB of body, in base64, and its headers


@dataclass(frozen=True)
class Streamed:
    """An item of a stream: an event, or a gap, which says that events are missing.

    The first item has neither: the stream has begun.
    """

    id: str
    """To stream on after it: stream(endpoint, after=id)."""
    event: types.StreamEvent | None = None
    gap: types.StreamGap | None = None


class StreamEnded(Exception):
    """The stream has ended for good: its key was revoked or its endpoint deleted."""


class Relay(Calls):
    """A client of a relay: Relay("https://relay.example.com", key)."""

    def send_all(
        self, endpoint_id: str, events: Iterable[types.BatchEvent], *, idempotency_key: str | None = None
    ) -> Iterator[types.BatchItem]:
        """Send any number of events in batches and yield the result of each, in order: an id or an error.

        The index counts all events. An exception ends it: the events after the last result were not confirmed. With
        idempotency_key it may be repeated as a whole, with the same events: what was stored is not stored again.
        """
        key = idempotency_key or self._new_key()
        for number, (first, batch) in enumerate(_batches(events)):
            for result in self._send_batch(endpoint_id, batch, f"{key}-{number}"):
                yield {**result, "index": first + result["index"]}

    def _send_batch(self, endpoint_id: str, batch: list[types.BatchEvent], key: str) -> list[types.BatchItem]:
        """Send a batch, and repeat it with the same key while events of it failed for the moment."""
        tries = 1
        while True:
            results = self.send_events(endpoint_id, {"events": batch}, idempotency_key=key)["data"]
            failed = any("error" in result and result["error"]["type"] in FOR_NOW for result in results)
            if not failed or tries >= self._max_tries:
                return results
            self._wait(tries, None)
            tries += 1

    def stream(self, endpoint_id: str, *, after: str | None = None) -> Iterator[Streamed]:
        """Yield the events of an endpoint as they are accepted, each once and in order.

        It begins now, or after the item with an id, and reconnects after a cut and after the shutdown of a node. It
        raises an APIError if it is refused, StreamEnded, or the network's error after max_tries without a connection
        at the start.
        """
        begun, tries = False, 1
        while True:
            try:
                headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
                request = self._request("GET", f"/v1/endpoints/{self._quote(endpoint_id)}/stream", None, headers)
                with self._open(request, SILENCE) as answer:
                    for item in _items(answer):
                        after = item.get("id", after)
                        value: Any = json.loads(item.get("data", "{}"))
                        if item["event"] == "end" and value["reason"] != "shutdown":
                            raise StreamEnded(f"the stream has ended: {value['reason']}")
                        if item["event"] in ("event", "gap"):
                            yield Streamed(after or "", **{item["event"]: value})
                        elif item["event"] == "ready" and not begun:
                            yield Streamed(after or "")
                        begun, tries = True, 0
                raise ConnectionError("the stream was cut")
            except (OSError, http.client.HTTPException, APIError) as error:
                if not temporary(error) or (not begun and tries >= self._max_tries) or not self._wait(tries, error):
                    raise
            tries += 1


def _batches(events: Iterable[types.BatchEvent]) -> Iterator[tuple[int, list[types.BatchEvent]]]:
    """Yield the index of the first event of each batch, and its events."""
    first, size = 0, len('{"events": []}')
    batch: list[types.BatchEvent] = []
    for event in events:
        more = len(json.dumps(event)) + 2
        if batch and (len(batch) == MAX_BATCH_EVENTS or size + more > MAX_BATCH_BYTES):
            yield first, batch
            first, size, batch = first + len(batch), len('{"events": []}'), []
        batch.append(event)
        size += more
    if batch:
        yield first, batch


def _items(answer: Any) -> Iterator[dict[str, str]]:
    """Yield the server-sent events of an answer."""
    item: dict[str, str] = {}
    while line := answer.readline(MAX_STREAM_LINE):
        if not line.endswith(b"\n") and len(line) == MAX_STREAM_LINE:
            raise ValueError("the stream has a line that is too long")
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        if field:
            item[field] = value.removeprefix(" ")
        elif not line.strip():  # others are comments
            if "event" in item:
                yield item
            item = {}
