"""Tests of the client without a relay: python3 -m unittest test_client.py"""

import io
import json
import pathlib
import threading
import unittest
import urllib.error
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest import mock

from eventrelay import APIError, Relay, StreamEnded, Verifier

HERE = pathlib.Path(__file__).parent


def read(name):
    return json.loads((HERE.parent / name).read_text())


class Client:
    """A client whose requests are answered by a function."""

    def __init__(self, answer):
        self.relay = Relay("http://relay.test/", "key", max_tries=3)
        self.relay._opener = mock.Mock(open=self.open)
        self.answer, self.requests, self.waits = answer, [], []

    def __enter__(self):
        self.patch = mock.patch("time.sleep", self.waits.append)
        self.patch.start()
        return self

    def __exit__(self, *_):
        self.patch.stop()

    def open(self, request, timeout):
        self.requests.append(request)
        status, headers, body = self.answer(request)
        if status == 0:
            raise ConnectionResetError
        if status < 300:
            return io.BytesIO(body)
        fields = Message()
        for name, value in headers.items():
            fields[name] = value
        raise urllib.error.HTTPError(request.full_url, status, "", fields, io.BytesIO(body))


class Tests(unittest.TestCase):
    def test_vectors(self):
        vectors = read("vectors.json")
        for d in vectors["deliveries"]:
            with self.subTest(d["Name"]):
                headers = {name.title(): value for name, value in d["Headers"].items()}
                try:
                    got = Verifier(d["Secret"]).verify(headers, d["Body"].encode(), now=vectors["now"])
                except Exception:
                    got = None
                self.assertEqual(got, "evt_01J" if d["Valid"] else None)

    def test_retries(self):
        for case in read("retries.json"):
            answers = iter(case["answers"])
            with (
                self.subTest(case["name"]),
                Client(lambda _: (next(answers), case.get("headers", {}), b"{}")) as client,
            ):
                call = {
                    "read": client.relay.read_me,
                    "send": lambda: client.relay.send_event("ep_1", {"type": "a", "data": {}}),
                    "change": lambda: client.relay.update_endpoint("ep_1", {}),
                }[case["call"]]
                if 200 <= case["answers"][case["tries"] - 1] < 300:
                    call()
                else:
                    self.assertRaises((APIError, OSError), call)
                keys = [request.get_header("Idempotency-key") for request in client.requests]
                self.assertEqual(len(keys), case["tries"])
                self.assertEqual(len(set(keys)), 1)
                self.assertEqual(keys[0] is not None, case["call"] == "send")

    def test_retry_after(self):
        answers = iter([(429, {"Retry-After": "7"}, b"{}"), (200, {}, b"{}")])
        with Client(lambda _: next(answers)) as client:
            client.relay.read_me()
            self.assertEqual(client.waits, [7])

    def test_errors(self):
        body = b'{"error":{"type":"invalid_request","param":"url","message":"m","request_id":"req_1"}}'
        with Client(lambda _: (400, {}, body)) as client, self.assertRaises(APIError) as raised:
            client.relay.list_events(body={"a.b": "1"}, type=["x", "y"], limit=5)
        error = raised.exception
        got = (error.status, error.type, error.param, error.request_id)
        self.assertEqual(got, (400, "invalid_request", "url", "req_1"))
        self.assertTrue(client.requests[0].full_url.endswith("/v1/events?body%5Ba.b%5D=1&type=x&type=y&limit=5"))

    def test_redirect(self):
        """A redirect would take the API key to another host."""

        class Redirect(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(302 if self.path == "/v1/me" else 200)
                self.send_header("Location", "/other")
                self.end_headers()

            def log_message(self, *_):
                pass

        with HTTPServer(("127.0.0.1", 0), Redirect) as server:
            threading.Thread(target=server.handle_request).start()
            with self.assertRaises(APIError) as raised:
                Relay(f"http://127.0.0.1:{server.server_port}", "key", timeout=5, max_tries=1).read_me()
        self.assertEqual(raised.exception.status, 302)

    def test_send_all(self):
        batches = []

        def answer(request):
            self.assertLessEqual(len(request.data), 5 << 20)
            events = json.loads(request.data)["events"]
            batches.append((request.get_header("Idempotency-key"), len(events)))
            data = [{"index": index} for index in range(len(events))]
            if len(batches) == 1:
                data[5]["error"] = {"type": "unavailable"}
            return 202, {}, json.dumps({"data": data}).encode()

        events = [{"type": "a", "data": {}}] * 1001 + [{"type": "a", "data": {"text": "x" * (3 << 20)}}] * 3
        with Client(answer) as client:
            results = list(client.relay.send_all("ep_1", iter(events), idempotency_key="import"))
        self.assertEqual(results, [{"index": index} for index in range(len(events))])
        numbers = [("import-0", 1000), ("import-0", 1000), ("import-1", 2), ("import-2", 1), ("import-3", 1)]
        self.assertEqual(batches, numbers)

    def test_stream(self):
        def item(number, event, data):
            return f"id: {number}\nevent: {event}\ndata: {data}\n\n"

        texts = [
            item(0, "ready", "{}") + ": a comment\n\n" + item(1, "event", '{"id":"evt_1"}') + "id: 2\nevent: event\nda",
            item(1, "ready", "{}") + item(2, "gap", "{}") + 'event: end\ndata: {"reason":"shutdown"}\n\n',
            item(2, "ready", "{}") + 'event: end\ndata: {"reason":"key_revoked"}\n\n',
        ]
        ok = [(200, {}, text.encode()) for text in texts]
        answers = iter([(503, {}, b""), ok[0], (0, {}, b""), *ok[1:]])
        got = []
        with Client(lambda _: next(answers)) as client, self.assertRaises(StreamEnded):
            for it in client.relay.stream("ep_1"):
                got.append((it.id, it.event, it.gap))
        self.assertEqual(got, [("0", None, None), ("1", {"id": "evt_1"}, None), ("2", None, {})])
        asked = [request.get_header("Last-event-id") for request in client.requests]
        self.assertEqual(asked, [None, None, "1", "1", "2"])
