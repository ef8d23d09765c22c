"""Verifies deliveries by Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Callable, Mapping

TOLERANCE = 300  # seconds that the time of a delivery may be from now


class VerificationError(Exception):
    """A delivery is not what the relay has signed in the last five minutes: answer 401."""


class Verifier:
    """Verifies deliveries of one destination.

    It takes the destination's signing.secret (whsec_…) or its signing.public_key (whpk_…), which needs the extra
    ed25519. With several, for a rotation, each of them verifies.
    """

    def __init__(self, *keys: str) -> None:
        if not keys:
            raise ValueError("there is no key")
        self._checks = [_check(key) for key in keys]

    def verify(self, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> str:
        """Return the id of a delivery, by which to handle it once, or raise a VerificationError.

        Give it the body as it was received, before anything decodes it.
        """
        given = {name.lower(): value for name, value in headers.items()}
        # Else those are the provider's.
        prefix = "relay-webhook-" if given.get("relay-webhook-signature") else "webhook-"
        webhook_id, sent = given.get(prefix + "id", ""), given.get(prefix + "timestamp", "")
        if not webhook_id or "." in webhook_id:
            raise VerificationError("the id is missing or has a full stop, which would move the body's beginning")
        if not (sent.isascii() and sent.isdigit() and len(sent) <= 15):
            raise VerificationError("the timestamp is missing or malformed")
        if abs((time.time() if now is None else now) - int(sent)) > TOLERANCE:
            raise VerificationError("the timestamp is too far from now")
        signed = f"{webhook_id}.{sent}.".encode() + body
        for signature in given.get(prefix + "signature", "").split():
            version, _, encoded = signature.partition(",")
            try:
                value = base64.b64decode(encoded, validate=True)
            except ValueError:
                continue
            if any(check(version, signed, value) for check in self._checks):
                return webhook_id
        raise VerificationError("no signature matches")


def _check(text: str) -> Callable[[str, bytes, bytes], bool]:
    kind, _, encoded = text.partition("_")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if kind == "whsec" and len(key) >= 24:
        return lambda version, signed, value: (
            version == "v1" and hmac.compare_digest(hmac.digest(key, signed, "sha256"), value)
        )
    if kind == "whpk" and len(key) == 32:
        return _ed25519(key)
    raise ValueError("a key is neither whsec_ with at least 24 bytes in base64, nor whpk_ with 32")


def _ed25519(key: bytes) -> Callable[[str, bytes, bytes], bool]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = Ed25519PublicKey.from_public_bytes(key)

    def check(version: str, signed: bytes, value: bytes) -> bool:
        try:
            public.verify(value, signed)
        except InvalidSignature:
            return False
        return version == "v1a"

    return check
