"""Reads deliveries from stdin, as JSON, and prints what the library of a receiver makes of each: a line of the event, "ok",
or "refused"."""

import base64
import importlib.util
import json
import sys

from cloudevents.core.bindings.http import HTTPMessage, from_http_event

# The module alone: its package needs a client of the API.
spec = importlib.util.spec_from_file_location("webhook", "python/convoy/utils/webhook.py")
convoy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(convoy)


def line(d):
    e = from_http_event(HTTPMessage(d["headers"], d["body"].encode()))
    a, data = e.get_attributes(), e.get_data()
    if isinstance(data, bytes):
        data = base64.b64encode(data).decode()
    else:
        data = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    at = round(a["time"].timestamp() * 1000)
    return "|".join([a["id"], a["source"], a["type"], str(at), a["datacontenttype"], data])


def receive(d):
    if d["library"] == "cloudevents":
        return line(d)
    header = d["headers"]["x-convoy-signature"]
    return "ok" if convoy.Webhook(d["secret"]).verify_signature(d["body"], header) is True else "refused"


print(json.dumps([receive(d) for d in json.load(sys.stdin)], ensure_ascii=False))
