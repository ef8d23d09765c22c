"""A client of the API of EventRelay. Its types and calls are made from the OpenAPI document."""

from . import types_gen as types
from .client import Relay, RelayError, Streamed, StreamEnded
from .verify import VerificationError, Verifier

__all__ = ["Relay", "RelayError", "StreamEnded", "Streamed", "VerificationError", "Verifier", "types"]
