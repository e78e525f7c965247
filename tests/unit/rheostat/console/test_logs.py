"""Parts of `rheostat run` write to one output: a line of one part never ends up within a line of another."""

from __future__ import annotations

import io
import json

import structlog

from rheostat.console.logs import set_up_logs


class Descriptor(io.RawIOBase):
    """Records what each write to the file descriptor contains."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.writes.append(bytes(data))
        return len(data)


def test_unbuffered_output_receives_a_line_and_its_end_in_one_write() -> None:
    descriptor = Descriptor()
    # As Python opens stderr with PYTHONUNBUFFERED.
    set_up_logs(io.TextIOWrapper(descriptor, write_through=True), part="tune")  # type: ignore[type-var]
    log = structlog.get_logger("test")
    log.info("began")
    log.warning("x" * 10_000)
    structlog.reset_defaults()
    assert [json.loads(data)["event"] for data in descriptor.writes] == ["began", "x" * 10_000]
    assert all(data.endswith(b"}\n") for data in descriptor.writes)
