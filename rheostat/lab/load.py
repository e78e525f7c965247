"""Produces load with Kafka's own ProducerPerformance, because kafka-python's producer reaches only about 10 MB/s."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from rheostat.errors import CommandError
from rheostat.jvm.artifacts import Artifacts
from rheostat.lab.tools import tool_command
from rheostat.run.process import spawn, stop
from streaming.shared.units import span_text

_FOREVER = 1_000_000_000  # Records; ProducerPerformance needs a number.


class ProducerLoad:
    """A producer that writes to a topic until the ``with`` block ends, or until ``total_bytes`` are written.

    The records are spread evenly over all partitions.
    """

    def __init__(
        self,
        artifacts: Artifacts,
        bootstrap_servers: str,
        topic: str,
        *,
        rate_bytes_per_s: float | None,
        record_bytes: int = 1_000,
        total_bytes: int | None = None,
        properties: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
    ) -> None:
        """
        Args:
            rate_bytes_per_s: the target rate; None means as fast as possible.
            total_bytes: the number of bytes after which the load ends; None means no limit.
            properties: further properties of the producer, such as "linger.ms=5".
            prefix: the beginning of the command, see ``NodeAddress``.
        """
        records_per_s = -1 if rate_bytes_per_s is None else max(1, round(rate_bytes_per_s / record_bytes))
        self._command = [
            *prefix,
            *tool_command(
                artifacts,
                "org.apache.kafka.tools.ProducerPerformance",
                "--bootstrap-server",
                bootstrap_servers,
                "--topic",
                topic,
                "--num-records",
                str(_FOREVER if total_bytes is None else max(1, total_bytes // record_bytes)),
                "--record-size",
                str(record_bytes),
                "--throughput",
                str(records_per_s),
                "--command-property",
                "acks=all",
                "partitioner.ignore.keys=true",
                *properties,
            ),
        ]
        self._log = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ProducerLoad:
        descriptor, name = tempfile.mkstemp(prefix="rheostat-load-", suffix=".log")
        os.close(descriptor)
        self._log = Path(name)
        self._process = spawn(self._command, log=self._log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            stop(self._process, grace_s=0.0)
        self._log.unlink(missing_ok=True)

    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def check(self) -> None:
        """Checks that the load still runs.

        Raises:
            CommandError: the load has ended by itself.
        """
        if self.ended():
            raise CommandError(
                f"Kafka's ProducerPerformance, which writes the load, has ended early: {self.output()[-300:]}"
            )

    def wait(self, timeout_s: float) -> float:
        """Waits for the end of a load with ``total_bytes``, and returns the MB/s that it reports.

        Raises:
            CommandError: the load does not end in time, or fails.
        """
        assert self._process is not None
        try:
            code = self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise CommandError(
                f"Kafka's ProducerPerformance, which writes the load, did not end within {span_text(timeout_s)}: "
                f"{self.output()[-300:]}"
            ) from error
        rates = re.findall(r"\(([\d.]+) MB/sec\)", self.output())
        if code != 0 or not rates:
            raise CommandError(
                f"Kafka's ProducerPerformance, which writes the load, failed with exit code {code}: {self.output()[-300:]}"
            )
        return float(rates[-1])

    def output(self) -> str:
        """Returns everything that the producer has printed so far."""
        return self._log.read_text(errors="replace")
