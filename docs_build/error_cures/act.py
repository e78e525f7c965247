"""Cures of errors of the commands that act: pause, resume, override, release and reassign."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import DOCTOR, RIGHTS

_STATUS_FIRST = "run `rheostat status`: it shows the orders in force. Repeat the order only if it is not among them"

CURES: Mapping[str, str] = MappingProxyType(
    {
        "The release is recorded, but it is unknown": (
            "run `rheostat status`. It shows which settings the tuner has still to restore, and whether a tuner is active"
        ),
        "Nothing was deleted: the tuner HOLDER still runs": (
            "stop all processes of rheostat on all hosts, wait half a minute, and repeat the command"
        ),
        "Nothing was deleted: records still arrive": "stop all processes of rheostat on all hosts, and repeat the command",
        "Nothing was deleted: the consumer group": (
            "stop all processes of rheostat on all hosts, wait some seconds, and repeat the command"
        ),
        "No setting could be restored": "correct the cause that the message gives for each setting, and repeat `rheostat release`",
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
        "there is no terminal to ask on": "add `--yes` to the command in scripts and cron jobs",
        "names log_dirs: rheostat moves replicas between brokers": (
            "remove `log_dirs` from the plan, or move these partitions with `kafka-reassign-partitions`"
        ),
        "is above the ceiling of": (
            "give a lower rate. Or first raise `tuner.rate_bytes_per_s_max`, and reload the tuner with SIGHUP"
        ),
        "--standalone starts a tuner, but these settings": (
            "set `tuner.dry_run: false`, or start the plan without `--standalone` while a tuner runs"
        ),
        "There is no plan ID on record": "use an id that `rheostat reassign status` shows",
        "The cluster cannot be read: …": DOCTOR,
        "The journal cannot be read, as the cluster does not answer": DOCTOR,
        "TOPIC cannot be read, as the cluster does not answer": DOCTOR,
        "Other operators gave orders for plan ID": (
            "run `rheostat reassign status`. If it shows the effect of another order, repeat your order"
        ),
        "give --throttle or --unthrottled, not both": (
            "remove `--unthrottled` to move at the rate of `--throttle`, or remove `--throttle` to move without a throttle"
        ),
        "give --at or --standalone, not both": (
            "remove `--standalone`, and keep a tuner running until the plan starts. Or remove `--at` to start the plan now"
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
            "--preserve-throttles`; a plan of rheostat is cancelled with `rheostat reassign cancel`"
        ),
        "which no override may exceed: give a lower rate": (
            "give a lower rate. Or first raise `tuner.rate_bytes_per_s_max`, and reload the tuner with SIGHUP"
        ),
        "--broker BROKER is not alive": "give the id of a broker that the message lists, or start the broker first",
        "the lowest rate that Kafka accepts is 1 B/s": "give `--throttle` a rate of at least 1 B/s",
        "was cancelled with --no-rollback": (
            "wait until the running steps have ended. To move the replicas back, start another plan with the original replicas"
        ),
        "Plan ID is STATE and cannot be ACTION": (
            "wait until `rheostat reassign status` shows that the plan has ended. Then start the plan again with `rheostat "
            "reassign start`"
        ),
        "has ended (…) and takes no more orders": (
            "start the plan again with `rheostat reassign start`, if its moves are still needed"
        ),
        "it is unknown whether the order is in effect, because TOPIC does not show it": _STATUS_FIRST,
        "missing right: Describe on Group GROUP": f"grant Describe on this consumer group to the user of the command; {RIGHTS}",
        "Nothing was deleted: `quotas calibrate` runs or was killed": (
            "wait until the calibration has ended. If it was killed, run `rheostat quotas calibrate --clear`; then repeat the "
            "command"
        ),
        "Nothing was deleted: ERROR": f"correct the cause in the message, and repeat the command; {DOCTOR}",
        "Nothing was deleted: reassignment plans are active": (
            "wait until `rheostat reassign status` shows no active plan, or cancel the plans; then repeat the command"
        ),
        "Nothing was deleted: under the cluster name": (
            "write a settings file with `cluster:` and the name in the message, and run `rheostat release` with it. This "
            "restores what "
            "rheostat has changed under the other name; then repeat the command"
        ),
    }
)
