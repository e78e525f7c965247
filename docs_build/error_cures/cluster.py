"""Cures of errors between the stream, the tuner, and the topics of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import REINSTALL, RIGHTS

_REPAIR = "[Repair the journal](../how-to/repair-the-journal.md)"

CURES: Mapping[str, str] = MappingProxyType(
    {
        "cannot … at BOOTSTRAP_SERVERS": "check that the brokers are alive: `rheostat doctor` names the part that fails",
        "REQUEST: error ERROR_CODE": (
            "a broker answered with an error code of the Kafka protocol. Try again; if the error remains, look at the "
            "log of the broker"
        ),
        "Create on Topic TOPIC": (
            "grant Create on the topic, or create it once with `rheostat doctor --create` as a user with this right; "
            f"{RIGHTS}"
        ),
        "Describe on Cluster": f"grant Describe on the cluster to the user of this process; {RIGHTS}",
        "Describe on Topic NAME": f"grant Describe on this topic to the user of this process; {RIGHTS}",
        "TOPIC cannot be taken over: missing right": (
            f"grant the tuner's user Write on the journal, and Write and Describe on its transactional id; {RIGHTS}"
        ),
        "The command needs the right Read on Topic": f"grant Read on this topic to the user of the command; {RIGHTS}",
        "Another version of rheostat wrote the checkpoint": (
            "start the version that wrote the checkpoint, or move the folder `stream.checkpoint_dir` away: the stream "
            "then begins with new records"
        ),
        "The checkpoint CHECKPOINT_DIR cannot be made": (
            "create the folder and make it writable for the user of rheostat, or set `stream.checkpoint_dir` to "
            "another folder"
        ),
        "The checkpoint CHECKPOINT_DIR was made with other settings or another version": (
            "give each cluster and each set of sources a folder of its own, or move the folder away: the stream then "
            "begins with new records"
        ),
        "no rheostat.json, so the settings that it was made with are not known": (
            "set `stream.checkpoint_dir` to an empty folder, or move the files away"
        ),
        "Java process ran out of memory": (
            "raise `stream.driver_memory_mb` and restart the stream, if a record that causes this is not found after "
            "some restarts"
        ),
        "No folder for temporary files can hold Spark's scratch space": (
            "free some space in the folder for temporary files, or set `TMPDIR` to another one"
        ),
        "TOPIC cannot be written: another tuner has taken the journal over": (
            "nothing, if you run two tuners: this one becomes the standby. Otherwise `rheostat status` names the other "
            "tuner; stop one of the two"
        ),
        "and only a single one keeps the order of records": (
            "release rheostat's settings with `rheostat release`, stop it, delete the topic, and start it again; see "
            f"{_REPAIR}"
        ),
        "a transaction is open in it, or its leader does not answer": (
            "wait for `transaction.timeout.ms` of the producer (one minute by default), and check that the brokers of "
            "the topic are alive"
        ),
        "topic TOPIC does not exist": "create rheostat's topics with `rheostat doctor --create`, or start `rheostat run`",
        "an earlier version of rheostat wrote this record: record version": (
            "follow the [upgrade guide](../how-to/upgrade.md): release the settings with the earlier version, then "
            "start the new one"
        ),
        "The unreadable records have changed meanwhile": f"repeat the command; see {_REPAIR}",
        "Not all records were written": (
            f"run `rheostat journal check`, and repeat the repair for the records that it names; see {_REPAIR}"
        ),
        "TOPIC did not take the record: …: ERROR": (
            "check that at least `min.insync.replicas` replicas of the topic are in sync: `kafka-topics --describe --topic TOPIC`"
        ),
        "It is unknown whether a tuner runs: …": (
            "grant Read on the journal, and Describe on the group of the tuner, to the user of the command"
        ),
        "group GROUP cannot be described": f"grant Describe on the group to the user of this process; {RIGHTS}",
        "The stream cannot start. …": (
            "remove the cause that the message names; if it names none, look for Spark's own message in the log above it"
        ),
        "The stream's Spark query was stopped from outside": (
            "start the stream again, unless an operator or a supervisor stopped it on purpose"
        ),
        "Nothing was changed, because …": (
            "use the version of rheostat that wrote the records; the [upgrade guide](../how-to/upgrade.md) says how to change "
            "to a newer one"
        ),
        "and the topic was not read to its end": (
            "check that the leader of the topic is alive (`kafka-topics --describe --topic TOPIC`), and repeat the command"
        ),
        "TOPIC cannot be taken over: …: ERROR": (
            "check that the brokers of the journal's topic are alive. The tuner tries again by itself"
        ),
        "TOPIC did not take the record: ERROR": (
            "nothing, if another tuner has taken over; otherwise `rheostat status` shows which tuners run"
        ),
        "Spark wrote FILE in its format": (
            f"another version of Spark wrote the checkpoint: {REINSTALL}; or move the folder `stream.checkpoint_dir` away"
        ),
        "cannot describe the cluster at ADDRESS": (
            "check that the brokers at this address are alive and that `stream.sources` gives the right address and login"
        ),
        "Kafka's answer has no result for topic": "repeat the command; if it fails again, look at the log of the active controller",
        "missing right: … (Kafka refused to …)": f"grant the right to the user of the command; {RIGHTS}",
    }
)
