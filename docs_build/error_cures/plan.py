"""Cures of errors of the commands that plan: plan, limits and fetchers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CURES: Mapping[str, str] = MappingProxyType(
    {
        "the current leaders and replicas of the partitions are not known": (
            "give `--config`, so that the command can read the cluster, or `--current` with the present assignment of the cluster"
        ),
        "partition TOPIC-PARTITION lacks": (
            "add the missing key to this partition: a plan file for `kafka-reassign-partitions` has `topic`, `partition` and "
            "`replicas` "
            "for each partition"
        ),
        "partitions are being reassigned, …-… among them": (
            "wait until `rheostat status` shows that no partition moves, and repeat the command"
        ),
        "No leader: …": (
            "start a broker that has an in-sync replica of the partition. `kafka-topics --describe "
            "--unavailable-partitions` lists such partitions"
        ),
        "POLICY_VIOLATION": (
            "move or delete partitions, add brokers, or raise the limit in the settings section `limits`. The plan or topic "
            "would exceed "
            "this limit"
        ),
        "INVALID_REPLICATION_FACTOR": (
            "give a replication factor of at most the number of brokers that are alive, or start more brokers"
        ),
        "every change of num.replica.fetchers restarts all fetcher threads: nothing was changed. Try again": (
            "wait until no partition moves, and repeat the command; `rheostat status` shows the expected end of the moves"
        ),
        "missing, and topic TOPIC does not exist": "give `--replication`, or the name of an existing topic",
        "Nothing is moving: name a plan file": (
            "give a plan file, or start the move first: without a plan file the command estimates the moves in progress"
        ),
        "Topic NAME was just created by another client": (
            "use another name, or add partitions to that topic with `rheostat limits grow`"
        ),
        "has not ended, and every change of num.replica.fetchers": (
            "wait until the plan has ended, or pause it with `rheostat reassign pause`"
        ),
        "lead partitions, but the cluster does not list them as alive": (
            "wait a minute, and repeat the command; if it fails again, check the brokers that the message names"
        ),
        "no signal of the last … contains the write rate of clients": (
            "start `rheostat run` and wait for the first signals, or give `--measure-for 10s`"
        ),
        "--plot: expected a file named": "use a file name that ends in `.svg` or `.txt`",
        "nothing is changed without --apply": "add `--apply`, or remove the options at the beginning of the message",
        "threads are compared by partitions, not by rates": "remove `--thread-rate`, or remove `--by partitions`",
        "this option stands before the command": (
            "write the option after the name of the command, as in `rheostat limits place --json …`"
        ),
        "No plan can be made: ERROR": (
            "the text after the colon says which replica has no room. Name other brokers, or add brokers; `rheostat limits` "
            "shows which "
            "brokers are full"
        ),
        "OPTION: Kafka creates at most COUNT_MAX": (
            "create the topic with at most 9,999 partitions, and add the other partitions afterwards, at most 10,000 with "
            "each request"
        ),
        "and Kafka cannot remove partitions": "give `--partitions` or `--to` a total number above the present number",
        "which its new partitions also get": "remove `--replication`: new partitions get the replication factor of their topic",
        "already exists, with … partitions": "give another name, or add partitions to the topic with `rheostat limits grow`",
        "OPTION: expected 1 to 249 letters": "give a topic name that Kafka accepts: letters, digits, `.`, `_` and `-`",
        "--preset: expected one of": "give one of the presets that the message lists",
        "--broker-limit: expected": "give the broker id and its limit, for example `--broker-limit 3=2000`",
        "--broker-limit: broker … is given twice": "keep one `--broker-limit` for this broker",
        "--topic-config: expected": "give the key and its value, for example `--topic-config retention.ms=86400000`",
        "--topic-config: … is given twice": "keep one `--topic-config` for this key",
        "--current gives the current assignment": "add the path of the plan file to the command",
        "--size: the live cluster reports": "remove `--size`; it belongs to `--current`, which reads no cluster",
        "expected now, best, a time of day such as 22:00": (
            "write the time in one of the forms in the message; a time without an offset is in the time zone of this machine"
        ),
        "has passed; give a later time": "give a later time, or leave the option out to start now",
        "ahead; give an earlier time": "give a time within the next 7 days",
        "does not exist, because clocks are set forward": (
            "give a time an hour earlier or later, or add the offset from UTC, such as `+01:00`"
        ),
        "is a time that this machine cannot represent": "give a time within the next 7 days",
        "--start: forecasts come from the live cluster": "give `--config`, and remove `--current`",
        "--start: a forecast needs the partitions of a plan": "add the path of the plan file to the command",
        "--start and --within cannot be combined": "remove `--start` or `--within`",
        "--plot draws the forecast of --start": "add `--start now`, or remove `--plot`",
        "--at best: no broker of the plan has a usable profile": (
            "give a time at which clients have little traffic, such as `--at 22:00`. `rheostat plan estimate --start best` "
            "says why no "
            "profile is usable; `rheostat learn` writes profiles after a day of history"
        ),
        "--at best: no start within the next day lets the move end within": (
            "give `--throttle` a higher rate, raise `tuner.rate_bytes_per_s_max`, or split the plan; or give a time instead of "
            "`best`"
        ),
        "--at best and --unthrottled": "give a time instead of `best`, or give the plan a throttle",
        "--share: the capacity is missing": "add `--capacity RATE`, the network rate of one broker",
        "--throttle and --capacity: both limit": "remove `--throttle` or `--capacity`",
        "--share: 0 % of capacity": "give `--share` a value above 0%",
        "all four figures of KIP-73's formula": (
            "add `--config FILE` and a plan file; or, without a plan file, add all the options at the end of the message"
        ),
        "Give exactly one of --add-broker": "keep one of the four options: one command plans one kind of move",
        "does not rebalance: leave --tolerance out": "remove `--tolerance`",
        "cannot be replaced and be a replacement at the same time": (
            "in the `--replace` that has this broker as the new one, name another broker; for example, instead of "
            "`--replace 1=2 --replace 2=3`, give `--replace 1=4 --replace 2=3`"
        ),
        "--add-broker: there is no other broker": (
            "name only the new brokers: the data comes from the brokers that you do not name, so at least one must remain"
        ),
        "--drain-broker: no living broker": "drain fewer brokers, or start the brokers that are down",
        "broker … is given twice": "name each broker once",
        "--replace: expected OLD=NEW": "give the old and the new broker id, for example `--replace 2=5`",
        "--replace: broker OLD is given twice": "keep one `--replace` for this broker",
        "OPTION: broker BROKER …": "give the option one of the brokers that the message lists",
        "--cordon: REASON. Leave --cordon out": (
            "start the broker, or update Kafka to 4.3 or newer; or leave `--cordon` out"
        ),
        "--cordon: … empties no broker": "remove `--cordon`: only `--drain-broker` and `--replace` empty brokers",
        "every other living broker is cordoned": (
            "lift the cordon of at least one broker (`cordoned.log.dirs`), or add a broker that can take the data"
        ),
        "is cordoned, so it takes no new replicas": (
            "name another broker, or remove this broker's `cordoned.log.dirs` with `kafka-configs`"
        ),
        "--every: expected": "give `--every` a time in the range in the message",
        "no limit is set, so the policy would refuse nothing": "set at least one of the keys in the message in the settings file",
        "FILE cannot be written (…): name a file": (
            "name a file in a folder in which the user of the command may create files, on a disk with free space"
        ),
        "FILE: FILE cannot be read (…)": (
            "let the user of the command read the file, or name another file. The command reads the file first, so that it "
            "replaces "
            "only a limits file"
        ),
        "exists and is no limits file": "name a new file, or a file that this command has written before",
        "TOPIC: TOPIC does not exist, or this user may not describe it": (
            "correct the name; `rheostat limits create` creates a topic. If the topic exists, grant Describe on it to the user "
            "of the "
            "command"
        ),
        "--watch measures write rates from the logs": "give `--measure-for` a time such as `10s`, or remove it",
        "…: not possible with --watch": "remove the option at the beginning of the message, or remove `--watch`",
        "--principal: expected User:NAME": (
            "write `--principal User:NAME` for all roles, or for example `--principal collect=User:NAME` for one role"
        ),
        "--principal: … has two values": "give `--principal` only once for each role, and only once without a role",
    }
)
