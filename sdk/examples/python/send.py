"""Send one event to an endpoint of the relay and print the event's id. Needs nothing but Python 3.9.

RELAY_BASE_URL=http://localhost:8080 RELAY_API_KEY=rly_live_… python3 send.py ep_… order.paid '{"amount":4200}'
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

MAX_TRIES = 5


def send(endpoint, event_type, data):
    """Send an event and return its id.

    A request that failed is repeated. The key is the same each time, so that the event is stored once.
    """
    key = str(uuid.uuid4())  # in an application: an id that the change already has, such as the order's
    request = urllib.request.Request(
        f"{os.environ['RELAY_BASE_URL']}/v1/endpoints/{endpoint}/events",
        data=json.dumps({"type": event_type, "data": data}).encode(),
        headers={
            "Authorization": f"Bearer {os.environ.get('RELAY_API_KEY', '')}",
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        },
    )
    for tries in range(1, MAX_TRIES + 1):
        wait = tries * tries * 0.2
        try:
            with urllib.request.urlopen(request, timeout=15) as response:
                return json.load(response)["id"]
        except urllib.error.HTTPError as error:
            if tries == MAX_TRIES or error.code != 429 and error.code < 500:
                raise RuntimeError(f"{error.code}: {error.read().decode()}") from error
            wait = max(wait, int(error.headers.get("Retry-After", 0)))
        except OSError:  # no answer: it may or may not have been stored
            if tries == MAX_TRIES:
                raise
        time.sleep(wait)


if __name__ == "__main__":
    if len(sys.argv) != 4 or not os.environ.get("RELAY_BASE_URL"):
        sys.exit("usage: RELAY_BASE_URL=… RELAY_API_KEY=… python3 send.py ENDPOINT TYPE JSON")
    try:
        print(send(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
    except ValueError as error:
        sys.exit(f"not JSON: {error}")
    except (OSError, RuntimeError) as error:  # no answer, or a refusal
        sys.exit(str(error))
