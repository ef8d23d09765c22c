"""What the generated calls need: requests, retries and errors."""

from __future__ import annotations

import http.client
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MAX_ANSWER = 64 << 20  # bytes of an answer
MAX_BACKOFF = 10.0


class APIError(Exception):
    """An answer other than 2xx: its status, type, code, param, message and request_id."""

    def __init__(self, status: int, retry_after: float, detail: Mapping[str, Any]) -> None:
        self.status = status
        self.retry_after = retry_after  # seconds, 0 if the service does not say
        self.detail = detail  # the whole error; without a type if it is not of the relay, but of a proxy
        self.type: str = detail.get("type", "")
        self.code: str | None = detail.get("code")
        self.param: str | None = detail.get("param")
        self.message: str = detail.get("message", "")
        self.request_id: str | None = detail.get("request_id")
        self._kept = False  # the same key gets the same answer, or its key could not be remembered
        super().__init__(f"{status} {self.type}: {self.message} (request {self.request_id})")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None  # it would take the API key to another host


class Base:
    """Makes requests.

    A call that fails for a moment is repeated: reads after 429, 5xx and a broken connection; writes only with an
    Idempotency-Key, which the calls that take one get by themselves.
    """

    def __init__(
        self, base_url: str, key: str, *, max_tries: int = 5, max_wait: float = 60.0, timeout: float = 60.0
    ) -> None:
        """A Retry-After longer than max_wait ends a call with its error. timeout is of one wait for the network."""
        self._base_url = base_url.rstrip("/")
        self._key = key
        self._max_tries = max_tries
        self._max_wait = max_wait
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Any:
        """Make any call of the API and return what its JSON has."""
        headers = {"Idempotency-Key": idempotency_key, "If-Match": if_match}
        request = self._request(method, path + _query(query), body, {k: v for k, v in headers.items() if v})
        tries = 1
        while True:
            try:
                with self._open(request, self._timeout) as answer:
                    text = answer.read(MAX_ANSWER + 1)
                if len(text) > MAX_ANSWER:
                    raise ValueError(f"the answer is larger than {MAX_ANSWER} bytes")
                return json.loads(text)
            except (OSError, http.client.HTTPException, APIError) as error:
                again = tries < self._max_tries and temporary(error) and _repeatable(method, idempotency_key, error)
                if not again or not self._wait(tries, error):
                    raise
            tries += 1

    def _request(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> urllib.request.Request:
        request = urllib.request.Request(self._base_url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        for name, value in {
            "Authorization": f"Bearer {self._key}",
            "User-Agent": "eventrelay-python",
            **headers,
        }.items():
            request.add_header(name, value)
        return request

    def _open(self, request: urllib.request.Request, timeout: float) -> Any:
        try:
            return self._opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as refused:
            with refused:
                raise _error_of(refused) from None

    def _wait(self, tries: int, error: Exception | None) -> bool:
        """Wait before the next try, and return whether to make it."""
        retry_after = error.retry_after if isinstance(error, APIError) else 0.0
        if retry_after > self._max_wait:
            return False
        time.sleep(max(min(0.1 * 2**tries, MAX_BACKOFF) * random.uniform(0.5, 1), retry_after))
        return True

    def _rows(self, page: Callable[[Any], Any], query: Mapping[str, Any]) -> Iterator[Any]:
        at: dict[str, Any] = dict(query)
        while True:
            answer = page(at)
            yield from answer["data"]
            if "next_cursor" not in answer:
                return
            at["cursor"] = answer["next_cursor"]

    @staticmethod
    def _quote(part: str) -> str:
        return urllib.parse.quote(part, safe="")

    @staticmethod
    def _new_key() -> str:
        return str(uuid.uuid4())


def temporary(error: Exception) -> bool:
    """Return whether a call that failed with an error may succeed later. Without an answer it may."""
    return not isinstance(error, APIError) or error.status == 429 or error.status >= 500


def _repeatable(method: str, key: str | None, error: Exception) -> bool:
    return method == "GET" or (key is not None and not (isinstance(error, APIError) and error._kept))


def _error_of(refused: urllib.error.HTTPError) -> APIError:
    text = refused.read(64 << 10).decode(errors="replace")
    try:
        detail = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        detail = {"message": text[:200]}
    after = refused.headers.get("Retry-After", "")
    retry_after = float(after) if after.isdigit() else 0.0
    error = APIError(refused.code, retry_after, {"request_id": refused.headers.get("X-Request-Id"), **detail})
    error._kept = any(name in refused.headers for name in ("Idempotent-Replayed", "Idempotency-Status"))
    return error


def _query(query: Mapping[str, Any] | None) -> str:
    """Write lists as repeated parameters, objects as name[member]."""
    pairs: list[tuple[str, Any]] = []
    for name, value in (query or {}).items():
        if isinstance(value, dict):
            pairs += [(f"{name}[{member}]", element) for member, element in value.items()]
        else:
            pairs += [(name, element) for element in (value if isinstance(value, list) else [value])]
    written = [(name, str(value).lower() if isinstance(value, bool) else value) for name, value in pairs]
    return "?" + urllib.parse.urlencode(written) if written else ""
