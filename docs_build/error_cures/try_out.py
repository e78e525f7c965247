"""Cures of errors of the commands that try something out: simulate, replay, demo and lab."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CURES: Mapping[str, str] = MappingProxyType(
    {
        "PATH: cannot be read: … expected a file, or one of": (
            "correct the path, or give the name of one of the scenarios that the message lists"
        ),
        "--controllers: expected 1 or 3": "give `--controllers 1` or `--controllers 3`",
        "expected a time before --to": "give `--from` an earlier time, or `--to` a later one",
        "Nothing can be replayed between": (
            "choose `--from` and `--to` inside the recorded time, which the message gives at its end"
        ),
        "give --config, the settings file of the cluster, or --journal": (
            "add `--config FILE` to read the cluster's records, or `--journal FILE` to read a file that `--export` wrote"
        ),
        "The recorded inputs are damaged": (
            "choose a range without these records. Only rheostat may have the permission Write on its topics: check the ACLs of "
            "the inputs topic"
        ),
        "KEY: …: give a range with an objective": (
            "choose a range in which the tuner had an objective, or try the settings with `rheostat simulate`. Without an "
            "objective the "
            "tuner did not record the data that the objective in `--tuner-settings` needs"
        ),
        "KEY: …: leave it out, or give a range": (
            "remove `mutation_quota` from the file of `--tuner-settings`, or choose a range in which rheostat set mutation quotas"
        ),
        "replay the file with the version that wrote it": (
            "beside this version, install the version of rheostat that wrote the file, and replay the file with that version"
        ),
        "expected a line as `rheostat replay --export` writes it": (
            "give a file that `rheostat replay --export` wrote, without changes by an editor"
        ),
        "OPTION: expected a moment such as": "give the time as a date with an hour, as a distance such as `-2h`, or as `now`",
        "--policy POLICY: ERROR": "correct the name or the file of the policy; the text after the colon says what is wrong",
        "the share is missing: give it": "add the share to the policy (`rheostat:share:25%`) or to the scenario",
        "the deadline is missing: give it": "add the deadline to the policy (`rheostat:deadline:2h`) or to the scenario",
        "KEY: expected a number of brokers": (
            "write `brokers` of the scenario as a number, or as a list with an entry for each broker"
        ),
        "expected 1 to 10000 brokers": "give the scenario between 1 and 10,000 brokers",
        "expected exactly one of add, drain, replace and plan": "keep one of the four keys under `move` of the scenario",
        "expected delay_max of at least delay": "raise `delay_max` of the scenario, or lower its `delay`",
        "expected an objective above base": "set the objective of the scenario between the two latencies in the message",
        "expected `until` to be later than `at`": "raise `until` of this event of the scenario, or lower its `at`",
        "expected brokers that hold nothing yet": "set `move.add` to brokers on which the scenario places no topics",
        "expected a broker without a replica of": "name another broker, which holds no replica of this partition yet",
        "expected a broker that can take": "add a broker to the scenario, or lower the replication factor of its topic",
        "the brokers of the journal do not answer": "do nothing: the simulator makes the journal fail on purpose",
        "A process of the demo ended by itself": (
            "correct the cause at the end of the message, such as too little memory, a used port or a missing Java, and start "
            "the demo "
            "again"
        ),
        "Kafka's ProducerPerformance, which writes the load": (
            "Kafka's own message follows the colon. If a broker has ended or the machine is too busy, end other programs, and "
            "start "
            "again"
        ),
        "kafka-reassign-partitions … failed": "Kafka's own message follows the colon: correct its cause, and repeat the command",
        "Not all brokers of the lab started": (
            "read the last lines of the logs in the message; the usual causes are too little memory and a port in use"
        ),
        "Lab node NAME ended while starting": (
            "read the log in the message; the usual causes are too little memory and a port in use"
        ),
        "Only … of COUNT ports are free": "`ss -ltn` lists the ports in use; end labs and other servers that you no longer need",
        "Lab NAME is STATE already": (
            "stop the running lab with `rheostat lab down --name NAME`, or give the new lab another `--name`"
        ),
        "The lab did not start in time": (
            "read the log in the message. If it shows no error, the machine is too busy: end other programs, and start the lab "
            "again"
        ),
        "this machine is too busy for the demo": "end other programs, and start the demo again",
        "expected something to copy, found no partition that moves": (
            "change `move` in the scenario: its target is equal to the initial placement, so no partition would move"
        ),
        "kafka-storage format of NAME failed": (
            "Kafka's own message follows the colon; the usual causes are a full disk and a folder without write permission"
        ),
    }
)
