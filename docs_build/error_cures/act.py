"""Cures of errors of the commands that act: pause, resume, override, release and reassign."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import DOCTOR

_STATUS_FIRST = "run `rheostat status` to see whether the order applies; repeat it only if it does not"

CURES: Mapping[str, str] = MappingProxyType(
    {
        "The release is recorded, and it is unknown": (
            "run `rheostat status`: it shows the settings that are still to be restored, and whether a tuner acts"
        ),
        "Nothing was deleted: the tuner HOLDER still runs": (
            "stop all processes of rheostat on all hosts, wait half a minute, and repeat the command"
        ),
        "Nothing was deleted: records still arrive": "stop all processes of rheostat on all hosts, and repeat the command",
        "Nothing was deleted: the consumer group": (
            "stop all processes of rheostat on all hosts, wait some seconds, and repeat the command"
        ),
        "No setting could be restored": "the message names the cause for each setting. Correct it, and repeat `rheostat release`",
        "it is unknown whether the order is recorded": _STATUS_FIRST,
        "It is not known whether the order was recorded": "run `rheostat reassign status` before you repeat the order",
        "It is not known whether the order applies": "run `rheostat reassign status` before you repeat the order",
        "the order is not recorded, because ERROR": (
            "nothing was changed. Correct the cause that the message names, and repeat the order"
        ),
        "The order was not recorded, because ERROR": (
            "nothing was changed. Correct the cause that the message names, and repeat the order"
        ),
        "another order is still being written": "wait some seconds, and repeat the order",
        "other orders are given at the same time": _STATUS_FIRST,
        "Not confirmed. Nothing was changed.": "repeat the command and answer with `y`, or give `--yes`",
        "there is no terminal to ask on": "in scripts and cron jobs, give `--yes`",
        "names log_dirs: rheostat moves replicas between brokers": (
            "remove `log_dirs` from the plan, or move these partitions with `kafka-reassign-partitions`"
        ),
        "is above the ceiling of": (
            "give a lower rate, or raise `tuner.rate_bytes_per_s_max` and reload the tuner with SIGHUP first"
        ),
        "--standalone starts a tuner, and with these settings": (
            "set `tuner.dry_run: false`, or start the plan without `--standalone` while a tuner runs"
        ),
        "There is no plan ID on record": "use an id that `rheostat reassign status` shows",
        "The cluster cannot be read: …": DOCTOR,
        "The journal cannot be read, as the cluster does not answer": DOCTOR,
        "TOPIC cannot be read, as the cluster does not answer": DOCTOR,
        "Other operators gave orders for plan ID": "run `rheostat reassign status`, and repeat the order if another one applies",
        "give --throttle or --unthrottled, not both": (
            "remove `--unthrottled` to move at the rate of `--throttle`, or remove `--throttle` to move without a throttle"
        ),
        "give --at or --standalone, not both": (
            "remove `--standalone`, and keep a tuner running until the start; or remove `--at`"
        ),
        "give --detach or --standalone, not both": (
            "if `rheostat run` or `rheostat tune` runs, give `--detach` alone. Otherwise give `--standalone` alone, and let the "
            "command run until the plan has ended"
        ),
        "give either --throttle, the throttle to set, or --clear": (
            "add `--throttle RATE` to set a throttle, or `--clear` to end the override"
        ),
        "--side: expected leader or follower": "give `--side leader` or `--side follower`, or remove it to set both sides",
        "--throttle: expected at least 1 B/s": (
            "give a rate of at least 1 B/s. To stop the move, cancel it with `kafka-reassign-partitions --cancel "
            "--preserve-throttles`, or a plan of rheostat with `rheostat reassign cancel`"
        ),
        "which is never exceeded: give a lower rate": (
            "give a lower rate, or raise `tuner.rate_bytes_per_s_max` and reload the tuner with SIGHUP first"
        ),
        "--broker BROKER is not alive": "give the id of a broker that the message lists, or start the broker first",
        "the lowest rate that Kafka accepts is 1 B/s": "give `--throttle` a rate of at least 1 B/s",
        "was cancelled with --no-rollback": (
            "wait until its steps in progress have ended; to move the replicas back, start another plan"
        ),
        "Plan ID is STATE and cannot be ACTION": (
            "wait until `rheostat reassign status` shows that the plan has ended, then start it again with `rheostat "
            "reassign start`"
        ),
        "has ended (…) and takes no more orders": (
            "start the plan again with `rheostat reassign start`, if its moves are still needed"
        ),
    }
)
