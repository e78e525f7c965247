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
            "correct the value that the message names with `kafka-configs`; it is a list of `PARTITION:BROKER`, or `*`"
        ),
        "The journal was not read to its end": (
            "check that the leader of the journal's topic is alive, and repeat the command after a minute"
        ),
        "The signals cannot be read: missing right": f"grant Read on the signals topic to the user of the command; {RIGHTS}",
        "The topic TOPIC does not exist yet": "start `rheostat run`; if it runs, its log says why the topic is not created",
        "The cluster's settings cannot be read": "grant DescribeConfigs on the cluster to the user of the command",
        "The signals cannot be read: ERROR": f"check that the brokers of the signals topic are alive; {DOCTOR}",
        "OPTION: expected …, found …": "give the option a value in the form that follows `expected`",
        "give --json or --watch, not both": "remove `--json` or `--watch`",
        "give only one of --json, --watch and --raw": "keep one of the three options",
        "--wide: --json and --raw show": "remove `--wide`",
        "has an effect only with --watch": "add `--watch`, or remove `--duration`",
        "--controller: expected one of": "give one of the controllers that the message lists",
        "--topics: expected at most 200000": "calculate with 200,000 topics, and multiply the time",
        "missing right: Read on Topic TOPIC": f"grant Read on this topic to the user of the command; {RIGHTS}",
    }
)
