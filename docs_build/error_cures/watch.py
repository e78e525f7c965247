"""Cures of errors of the commands that watch: status, signals, throttles, doctor and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import DOCTOR, RIGHTS

CURES: Mapping[str, str] = MappingProxyType(
    {
        "The throttles cannot be read: ERROR": DOCTOR,
        "The throttles of broker BROKER cannot be read": (
            "check that the broker is alive, and grant DescribeConfigs on the cluster to the user of the command"
        ),
        "The throttled-replica lists of topic TOPIC cannot be read": (
            "with `kafka-configs`, correct the value that the message names: it must be a list of `PARTITION:BROKER`, or `*`"
        ),
        "The journal was not read to its end": (
            "check that the leader of the journal's partition is alive, wait a minute, and repeat the command"
        ),
        "The signals cannot be read: missing right": f"grant Read on the signals topic to the user of the command; {RIGHTS}",
        "The history cannot be read": (
            f"grant Read and Describe on the history topic to the user of the command, and check that its brokers are up; {DOCTOR}"
        ),
        "The topic TOPIC does not exist yet": (
            "start `rheostat run`. If it already runs, its log shows why the collector could not create the topic"
        ),
        "The cluster's settings cannot be read": "grant DescribeConfigs on the cluster to the user of the command",
        "The signals cannot be read: ERROR": f"check that the brokers of the signals topic are alive; {DOCTOR}",
        "OPTION: expected …, found …": "give the option a value in the form after the word `expected`",
        "give --json or --watch, not both": "remove `--json` or `--watch`",
        "give only one of --json, --watch and --raw": "keep one of the three options",
        "--wide: --json and --raw show": "remove `--wide`",
        "has an effect only with --watch": "add `--watch`, or remove `--duration`",
        "--controller: expected one of": "give one of the controllers that the message lists",
        "--topics: expected at most 200000": (
            "give `--topics 200000`, and multiply the time in the answer by your number of topics ÷ 200,000"
        ),
        "A tuner that manages mutation quotas is active": "run `rheostat pause`, calibrate, and run `rheostat resume`",
        "Another calibration is running now": (
            "wait until the other calibration has ended, or ask the operator in the parentheses to end it"
        ),
        "Another `rheostat quotas measure` is running now": "wait until the other command has ended, or end it with Ctrl-C",
        "No JMX agent of the active controller answers": (
            "name all controllers in `collector.endpoints`, and check their agents with `rheostat doctor`"
        ),
        "the brokers do not show the quota that makes Kafka measure": "check that all brokers answer, and repeat the command",
        "The brokers do not show topic TOPIC": "check that all brokers answer, and repeat the command",
        "The cluster is not quiet": (
            "wait until no partition moves and all replicas are in sync (`rheostat status`), and repeat the command"
        ),
        "The controller is busy without the calibration": (
            "repeat the command when the controller has less load, or give a higher `--latency-max`"
        ),
        "The calibration cannot delete its topics": f"set `delete.topic.enable=true` on the controllers, or grant Delete on the "
        f"topics of a calibration; {RIGHTS}. If the message names a topic that is left, delete it",
        "The first topic of the calibration cannot be created": f"grant Create on the topics of a calibration; {RIGHTS}",
        "The latency of the controller cannot be measured": f"grant AlterConfigs on the topics of a calibration; {RIGHTS}",
        "The quota that makes Kafka measure each tenant cannot be set": f"grant AlterConfigs on the cluster; {RIGHTS}",
        "The partition limits in the settings section `limits` leave room": (
            "delete topics that you no longer need, or raise the limits in this section"
        ),
        "The quota of ENTITY, RATE partitions/s, would limit": (
            "during the calibration, give the client id `rheostat-calibrate` a `controller_mutation_rate` of 1e9, or remove "
            "the quota in "
            "the message"
        ),
        "missing right: Read on Topic TOPIC": f"grant Read on this topic to the user of the command; {RIGHTS}",
        "--principal is for --print-acls": "add `--print-acls`, or remove `--principal`",
        "--print-acls prints commands and checks nothing": "remove `--json`, `--fetch` and `--create`, or remove `--print-acls`",
        "--for: expected at most": "give `--for` a shorter time. Nothing was changed",
        "give --json or --clear, not both": "remove `--json` or `--clear`",
        "--partitions-max: expected at least": (
            "give `--partitions-max` at least the number in the message, or give a smaller `--partitions`"
        ),
        "--replication: FACTOR replicas need FACTOR brokers": "give `--replication` at most the number of brokers that are alive",
    }
)
