"""Leases of a stream that the test gives and takes."""

from __future__ import annotations

import threading


class FakeStreamLease:
    """A ``StreamLease``.

    Attributes:
        is_held: whether the stream holds it.
        is_after_another: whether another stream held it before.
    """

    def __init__(self, *, is_held: bool = False, is_after_another: bool = False) -> None:
        self.is_held = is_held
        self.is_after_another = is_after_another

    def holds(self) -> bool:
        return self.is_held

    def stands_by(self) -> bool:
        return False

    def hangs(self) -> bool:
        return False

    def follows_another(self) -> bool:
        return self.is_after_another

    def sign(self) -> None:
        self.is_after_another = False

    def close(self) -> None:
        self.is_held = False

    def give_soon(self) -> None:
        threading.Timer(0.3, lambda: setattr(self, "is_held", True)).start()
