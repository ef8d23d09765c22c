"""An example: send events, list them, stream them, and read an error.

RELAY_BASE_URL=http://localhost:8080 RELAY_API_KEY=rly_live_… python3 tour.py
"""

import os
import threading
from collections.abc import Iterator

from eventrelay import APIError, Relay, types

EVENTS = 2101
relay = Relay(os.environ["RELAY_BASE_URL"], os.environ["RELAY_API_KEY"])

print("scope", relay.read_me()["scope"])

# A paused endpoint stores events and delivers none.
endpoint = relay.create_endpoint({"name": "tour in Python", "url": "https://example.com/hook", "paused": True})
stream = relay.stream(endpoint["id"])
next(stream)  # the stream has begun
seen: set[str] = set()


def read_all() -> None:
    """Return when all events were seen as they were accepted, each once."""
    for item in stream:
        if item.event:
            assert item.event["id"] not in seen, "it came twice"
            seen.add(item.event["id"])
        if len(seen) == EVENTS:
            return


def orders(count: int) -> Iterator[types.BatchEvent]:
    for number in range(count):
        yield {"type": "order.created", "data": {"number": number}}


reader = threading.Thread(target=read_all)
reader.start()

relay.send_event(endpoint["id"], {"type": "order.paid", "data": {"amount": 4200}})
print("stored", sum("error" not in result for result in relay.send_all(endpoint["id"], orders(EVENTS - 1))))
print("listed", sum(1 for _ in relay.list_events_all(endpoint_id=[endpoint["id"]], limit=100)))
try:
    relay.read_event("evt_nope")
except APIError as error:
    print("refused", error.status, error.type)
reader.join()
print("streamed", len(seen))
relay.delete_endpoint(endpoint["id"])
