"""Runs `rheostat limits policy keep`: counts the partitions again and again, and replaces the limits file.

A count that fails changes nothing: the file grows old, and then the policy allows each topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from rheostat.config.replaced_file import replace_file
from rheostat.config.settings import Settings, load_settings
from rheostat.errors import EXIT_DONE, BadInputError, CommandError
from rheostat.limits.command import count_replicas, open_racks
from rheostat.limits.policy.limits_file import USABLE_S_MAX, is_limits_file, render_limits_file
from rheostat.plan.cluster_layout import open_cluster, read_cordoned_brokers, read_layout
from rheostat.run.services import stop_on_signals
from tuner.core.partition_limits import PartitionLimits

log = structlog.get_logger("policy")

EVERY_S_MIN = 5.0
EVERY_S_MAX = USABLE_S_MAX / 10
_CLIENT_ID = "rheostat-limits-policy"
_USABLE_S_MIN = 300
_TITLE_BYTES_MAX = 200
# On a large cluster a count takes seconds. The keeper then counts less often, but always several times before a count is too old.
_PAUSE_PER_COUNT = 9.0  # Pause ÷ duration of the last count.
_PAUSE_PER_USABLE_MAX = 0.25  # Highest pause ÷ time for which the policy may use a count.


@dataclass(frozen=True, slots=True)
class Count:
    """The text of the limits file, and the number of replicas in it."""

    text: str
    replicas: int


def usable_for_s(every_s: float) -> int:
    """Returns how long the policy may use a count: ten rounds, and at least five minutes."""
    return max(_USABLE_S_MIN, round(10 * every_s))


def pause_s(every_s: float, count_s: float) -> float:
    """Returns the time until the next count.

    Args:
        count_s: how long the last count took.
    """
    return max(every_s, min(_PAUSE_PER_COUNT * count_s, _PAUSE_PER_USABLE_MAX * usable_for_s(every_s)))


def read_limits(config: Path) -> tuple[Settings, PartitionLimits]:
    """Returns the settings and their partition limits.

    Raises:
        BadInputError: the file cannot be used, or has no limit.
    """
    settings = load_settings(config)
    if not settings.limits.are_set:
        raise BadInputError(
            f"{config}: limits: no limit is set, so the policy would refuse nothing: set limits.preset, "
            "limits.max_broker_partitions or limits.max_partitions"
        )
    return settings, settings.limits.limits()


def count_once(config: Path, every_s: float) -> Count:
    """Counts the partitions of the cluster, with the settings that the file has now.

    Raises:
        CommandError: the settings cannot be used, or the cluster cannot be read.
    """
    settings, limits = read_limits(config)
    # Taken before the count, because the policy adds the topics that it has allowed after this time.
    counted_at_ms = round(time.time() * 1000)
    with open_cluster(settings, _CLIENT_ID) as client:
        layout = read_layout(client, settings, _CLIENT_ID)
        brokers = open_racks(layout, read_cordoned_brokers(client, layout))
    counts = count_replicas(layout)
    text = render_limits_file(counts, brokers, limits, counted_at_ms, usable_for_s(every_s))
    return Count(text, counts.total)


def run_keep(config: Path, file: Path, every_s: float, *, once: bool) -> int:
    """Writes the file until SIGTERM or Ctrl-C, and returns the exit code.

    Args:
        once: whether to write the file only once. In this case an error ends the command.

    Raises:
        BadInputError: the settings or the interval cannot be used, the file's folder does not exist, or the file is another file.
        CommandError: with ``once``, the cluster cannot be read or the file cannot be written.
    """
    if not EVERY_S_MIN <= every_s <= EVERY_S_MAX:
        raise BadInputError(f"--every: expected {EVERY_S_MIN:g} s to {EVERY_S_MAX:g} s, found {every_s:g} s")
    if not file.parent.is_dir():
        raise BadInputError(f"FILE: the folder {file.parent} does not exist: create it, or name another file")
    _check_replaceable(file)
    read_limits(config)
    stop = stop_on_signals()
    keeper = Keeper(file, lambda: count_once(config, every_s))
    while True:
        began_s = time.monotonic()
        if once:
            keeper.write()
            return EXIT_DONE
        keeper.try_write()
        if stop.wait(pause_s(every_s, count_s=time.monotonic() - began_s)):
            return EXIT_DONE


def _check_replaceable(file: Path) -> None:
    """Checks that this command does not replace a file that is no limits file, such as the settings file."""
    try:
        is_replaceable = not file.exists() or (file.is_file() and is_limits_file(_first_bytes(file)))
    except OSError as error:
        raise BadInputError(f"FILE: {file} cannot be read ({error.strerror or error}): name another file") from error
    if not is_replaceable:
        raise BadInputError(
            f"FILE: {file} exists and is no limits file, so it is not replaced: name another file, or remove it"
        )


def _first_bytes(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_TITLE_BYTES_MAX)


class Keeper:
    """Replaces the limits file by new counts, and logs when this begins to fail or to succeed."""

    def __init__(self, file: Path, count: Callable[[], Count]) -> None:
        self._file = file
        self._count = count
        # The error that was logged last; None if a success was logged last; empty if nothing was logged yet.
        self._logged: str | None = ""

    def write(self) -> Count:
        """Counts, and replaces the file.

        Raises:
            CommandError: the cluster cannot be read, or the file cannot be written.
        """
        count = self._count()
        try:
            replace_file(self._file, count.text.encode())
        except OSError as error:
            raise CommandError(
                f"{self._file} cannot be written ({error.strerror or error}): name a file in a folder in which this user may "
                "create files."
            ) from error
        return count

    def try_write(self) -> None:
        """Counts, and replaces the file; after an error the earlier file stays."""
        try:
            count = self.write()
        except CommandError as error:
            if str(error) != self._logged:
                self._logged = str(error)
                log.error(
                    "The limits file was not replaced. Once its numbers of partitions are too old, the controllers' policy "
                    "refuses no topic.",
                    file=str(self._file),
                    error=str(error),
                )
            return
        if self._logged is not None:
            self._logged = None
            log.info("The limits file is up to date.", file=str(self._file), replicas=count.replicas)
