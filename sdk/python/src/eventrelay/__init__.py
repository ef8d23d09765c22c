"""A client of the API of EventRelay. Its types and calls are made from the OpenAPI document."""

from . import types_gen as types
from .client import APIError, Relay, Streamed, StreamEnded
from .verify import VerificationError, Verifier

__all__ = ["APIError", "Relay", "StreamEnded", "Streamed", "VerificationError", "Verifier", "types"]
