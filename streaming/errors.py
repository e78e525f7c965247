"""The error that the stream processor reports to the operator."""

from __future__ import annotations


class StreamError(RuntimeError):
    """The pipeline cannot start or has died; the message names the cause and, if there is a remedy, the remedy."""
