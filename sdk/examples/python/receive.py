"""A destination of the relay: verify each delivery with the Standard Webhooks library, handle each event once, print it.

Needs `pip install -r requirements.txt`.

PORT=3000 RELAY_SIGNING_SECRET=whsec_… python3 receive.py
"""
import base64
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook

MAX_BODY = 10 << 20
MIN_KEY = 24
if not os.environ.get("RELAY_SIGNING_SECRET"):
    sys.exit("RELAY_SIGNING_SECRET is missing: it is the destination's signing.secret")
try:
    key = base64.b64decode(os.environ["RELAY_SIGNING_SECRET"].removeprefix("whsec_"), validate=True)
except ValueError:
    key = b""
if len(key) < MIN_KEY:  # with a short key, even an empty one, anybody can sign
    sys.exit("RELAY_SIGNING_SECRET is invalid: it must be whsec_ and at least 24 bytes in base64")
webhook = Webhook(os.environ["RELAY_SIGNING_SECRET"])
lock = threading.Lock()
handled = set()  # in an application: a unique column, written in the same transaction as the change


def handle(webhook_id, event):
    """Do the work of an event, once."""
    with lock:
        if webhook_id not in handled:
            print("received", webhook_id, event.get("type"), json.dumps(event.get("data", event)), flush=True)
            handled.add(webhook_id)


def receive(headers, body):
    """Return the status of the answer."""
    try:
        event = webhook.verify(body, dict(headers))  # also parses the JSON
    except Exception:  # the library raises more than its own error for headers that are not well formed
        return 401
    handle(headers["webhook-id"], event)
    return 204


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 15

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= MAX_BODY:
            self.close_connection = True
            status = 413
        else:
            try:
                status = receive(self.headers, self.rfile.read(length))  # the bytes as received: they are what is signed
            except Exception:
                status = 500  # the relay delivers it again
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    try:
        server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 0))), Receiver)
    except OSError as error:  # the port is in use
        sys.exit(str(error))
    print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
