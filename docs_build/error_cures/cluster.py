"""Cures of errors between the stream, the tuner, and the topics of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import RIGHTS

_REPAIR = "[Repair the journal](../how-to/repair-the-journal.md)"
_WITHOUT_CHECKPOINT = "without a checkpoint, the stream begins where `stream.start` says, by default with new records"

CURES: Mapping[str, str] = MappingProxyType(
    {
        "cannot … at BOOTSTRAP_SERVERS": (
            "check that the brokers are alive; `rheostat doctor` shows which step of the connection fails"
        ),
        "REQUEST: error ERROR_CODE": (
            "repeat the command. If the error remains, look up the code among the error codes of the Kafka protocol, and look "
            "at the "
            "log of the broker"
        ),
        "Create on Topic TOPIC": (
            "grant Create on the topic, or create it once with `rheostat doctor --create` as a user with this right; "
            f"{RIGHTS}"
        ),
        "Describe on Cluster": f"grant Describe on the cluster to the user of this process; {RIGHTS}",
        "Describe on Topic NAME": f"grant Describe on this topic to the user of this process; {RIGHTS}",
        "TOPIC cannot be taken over: missing right": (
            f"grant the tuner's user Write on the journal's topic, and Write and Describe on the transactional id of the "
            f"journal; {RIGHTS}"
        ),
        "The command needs the permission Read on Topic": f"grant Read on this topic to the user of the command; {RIGHTS}",
        "Another version of rheostat wrote the checkpoint": (
            "start the version that wrote the checkpoint, or move the folder `stream.checkpoint_dir` to another place: "
            f"{_WITHOUT_CHECKPOINT}"
        ),
        "The checkpoint CHECKPOINT_DIR cannot be created": (
            "create the folder and make it writable for the user of rheostat, or set `stream.checkpoint_dir` to "
            "another folder"
        ),
        "The checkpoint CHECKPOINT_DIR was made with other settings or another version": (
            "set `stream.checkpoint_dir` to a folder that only this cluster and this set of `stream.sources` use. Or move the "
            f"old folder to another place: {_WITHOUT_CHECKPOINT}"
        ),
        "no rheostat.json, so it is unknown with which settings it was created": (
            "set `stream.checkpoint_dir` to an empty folder, or move the files in it to another place"
        ),
        "Java process ran out of memory": (
            "wait for the automatic restarts: the stream finds a single bad record by itself, and skips it. If the error comes "
            "again, "
            "raise `stream.driver_memory_mb`"
        ),
        "No folder for temporary files can hold Spark's scratch space": (
            "free some space in the folder for temporary files, or set `TMPDIR` to another one"
        ),
        "TOPIC cannot be written: another tuner has taken over the journal": (
            "if you run two tuners, do nothing: this tuner becomes the standby. Otherwise stop one of them; `rheostat status` "
            "names "
            "the active tuner"
        ),
        "because only one partition keeps the order of records": (
            f"run `rheostat release`, stop rheostat, delete the topic, and start rheostat again; see {_REPAIR}"
        ),
        "a transaction is open in it, or its leader does not answer": (
            "wait one minute (the producer's `transaction.timeout.ms`), until Kafka aborts the open transaction, and repeat "
            "the command. "
            "Check that the brokers of the topic are alive"
        ),
        "topic TOPIC does not exist": "create rheostat's topics with `rheostat doctor --create`, or start `rheostat run`",
        "an earlier version of rheostat wrote this record: record version": (
            "follow the [upgrade guide](../how-to/upgrade.md): run `rheostat release` with the earlier version, then "
            "start the new version"
        ),
        "The unreadable records have changed meanwhile": f"repeat the command; see {_REPAIR}",
        "Not all records were written": (
            f"run `rheostat journal check`, and repeat the repair for the records that it names; see {_REPAIR}"
        ),
        "TOPIC did not accept the record: …: ERROR": (
            "check that at least `min.insync.replicas` replicas of the topic are in sync: `kafka-topics --describe --topic TOPIC`"
        ),
        "It is unknown whether a tuner runs: …": (
            "grant Read on the journal, and Describe on the consumer group of the tuner, to the user of the command"
        ),
        "group GROUP cannot be described": f"grant Describe on the group to the user of this process; {RIGHTS}",
        "The stream cannot start. …": (
            "correct the cause in the message. If the message names no cause, look for the message of Spark above it in the log"
        ),
        "The stream's Spark query was stopped from outside": (
            "start the stream again, unless an operator or a supervisor stopped it on purpose"
        ),
        "Nothing was changed, because …": (
            "use the version of rheostat that wrote the records; the [upgrade guide](../how-to/upgrade.md) says how to change "
            "to a newer version"
        ),
        "and the topic was not read to its end": (
            "check that the leader of the topic is alive (`kafka-topics --describe --topic TOPIC`), and repeat the command"
        ),
        "TOPIC cannot be taken over: …: ERROR": (
            "check that the brokers with the journal's topic are alive. The tuner tries again by itself"
        ),
        "TOPIC did not accept the record: ERROR": (
            "run `rheostat status`: it shows which tuner is active. If another tuner has taken over, do nothing. Otherwise "
            "check that at least `min.insync.replicas` replicas of the topic are in sync: "
            "`kafka-topics --describe --topic TOPIC`"
        ),
        "Spark wrote FILE in its format": (
            "start the version of rheostat that wrote the checkpoint: it uses another version of Spark. Or move the folder "
            f"`stream.checkpoint_dir` to another place: {_WITHOUT_CHECKPOINT}"
        ),
        "cannot describe the cluster at ADDRESS": (
            "check that the brokers at this address are alive and that `stream.sources` gives the right address and login"
        ),
        "Kafka's answer has no result for topic": "repeat the command; if it fails again, look at the log of the active controller",
        "missing right: … (Kafka refused to …)": f"grant the right to the user of the command; {RIGHTS}",
        "Another rheostat process uses the checkpoint of the lock file FILE": (
            "stop the other process, or give each stream its own `stream.checkpoint_dir`"
        ),
        "cannot log in at BOOTSTRAP_SERVERS": (
            "correct the cause after the colon, in the section `kafka` or in the `kafka` of an entry of `stream.sources`; "
            "`rheostat "
            "doctor` tests the login"
        ),
        "The file FILE cannot be written": (
            "let the user of rheostat write into the folder that contains `stream.checkpoint_dir`, and free some space on its disk"
        ),
        "Kafka did not confirm in time whether topic TOPIC": (
            "run `kafka-topics --describe --topic TOPIC`: if the new partitions are there, the change has succeeded. Otherwise "
            "repeat the command"
        ),
        "missing right: Alter on Topic TOPIC": f"grant Alter on this topic to the user of the command; {RIGHTS}",
        "no broker is alive": "start the brokers, and repeat the command: the controllers answer, but list no broker",
    }
)
