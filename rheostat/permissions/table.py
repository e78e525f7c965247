"""The table of rights that each process, and each group of commands, needs on a cluster with ACLs.

The page docs/reference/permissions.md and the commands of ``rheostat doctor --print-acls`` are made from this table. A test runs
each process with exactly these rights (tests/integration/test_permissions_live.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streaming.shared.lease import lease_group

PREFIX, CLUSTER = "<prefix>", "<cluster>"
ALL = "*"


class ResourceKind(StrEnum):
    """The kinds of resources, named as Kafka names them."""

    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"
    TRANSACTIONAL_ID = "TransactionalId"


@dataclass(frozen=True, slots=True)
class Permission:
    """Operations on a resource.

    Attributes:
        name: the resource; ``<prefix>`` stands for topics.prefix, ``<cluster>`` for the setting `cluster`, ``*`` for all topics.
        purpose: the purpose of the rights, in Markdown.
        is_prefix: whether the rights are valid for each resource whose name begins with ``name``.
        is_for_plans_and_leaders: whether the rights are needed only if tuner.reassign.enabled is true or tuner.leadership is act.
    """

    operations: tuple[str, ...]
    kind: ResourceKind
    name: str
    purpose: str
    is_prefix: bool = False
    is_for_plans_and_leaders: bool = False


@dataclass(frozen=True, slots=True)
class Role:
    """A process, or a group of commands, that can have a user of its own.

    Attributes:
        name: short name, which is also the default user: ``rheostat-<name>``.
        title: the process or commands, in Markdown.
        before: text above the table of the page, in Markdown.
        after: text below the table.
    """

    name: str
    title: str
    permissions: tuple[Permission, ...]
    before: str = ""
    after: str = ""


def _cluster(operations: str, purpose: str, *, is_for_plans_and_leaders: bool = False) -> Permission:
    return Permission(
        operations=tuple(operations.split()),
        kind=ResourceKind.CLUSTER,
        name="",
        purpose=purpose,
        is_for_plans_and_leaders=is_for_plans_and_leaders,
    )


def _topic(operations: str, name: str, purpose: str, *, is_prefix: bool = False) -> Permission:
    return Permission(
        operations=tuple(operations.split()),
        kind=ResourceKind.TOPIC,
        name=name,
        purpose=purpose,
        is_prefix=is_prefix,
    )


def _group(name: str, purpose: str, operation: str = "Read", *, is_prefix: bool = False) -> Permission:
    return Permission(operations=(operation,), kind=ResourceKind.GROUP, name=name, purpose=purpose, is_prefix=is_prefix)


_LEASE = lease_group(CLUSTER)
_NO_LEASE = (
    "Without the right on its group, the {part} logs the missing right, and acts without the lease. If {part}s run on two hosts, "
    "both then act."
)
_WEEK = _topic("Read", f"{PREFIX}.history", "optional: the last week of each broker, for the status page")
_PROFILES = _topic("Read", f"{PREFIX}.profiles", "optional: the profiles of brokers that `rheostat learn` publishes")
_ALL_OWN = "Read Write Describe DescribeConfigs"

CREATE = Role(
    name="create",
    title="Creation of the topics",
    before="The first process that needs a missing topic creates it. To create all topics in advance, use `rheostat doctor "
    "--create`. The user of this process or command needs these rights:",
    permissions=(_topic("Create Describe DescribeConfigs", f"{PREFIX}.", "rheostat's own topics", is_prefix=True),),
    after="If the journal or the orders topic is deleted, the tuner creates it again, and needs Create on Topic prefix "
    "`<prefix>.`. If you do not grant this right, run `rheostat doctor --create` as another user.",
)
COLLECT = Role(
    name="collect",
    title="`rheostat collect`",
    permissions=(
        _cluster("Describe DescribeConfigs", "brokers, reassignments, log sizes, throttles of brokers"),
        _topic("Describe DescribeConfigs", ALL, "moving partitions, throttled-replica lists"),
        _topic("Write", f"{PREFIX}.metrics", "measurements"),
        _group(lease_group(CLUSTER, "collect"), "the lease (the right to act), which only one collector has"),
    ),
    after=_NO_LEASE.format(part="collector"),
)
STREAM = Role(
    name="stream",
    title="`rheostat stream`",
    permissions=(
        _topic("Read Describe DescribeConfigs", f"{PREFIX}.metrics", "measurements"),
        _topic(_ALL_OWN, f"{PREFIX}.signals", "to write signals; to read signals for the history"),
        _topic("Write Describe DescribeConfigs", f"{PREFIX}.rejects", "refused records"),
        _topic(_ALL_OWN, f"{PREFIX}.history", "history"),
        _group(lease_group(CLUSTER, "stream"), "the lease (the right to act), which only one stream has"),
    ),
    after="The stream also needs Read and Describe on each topic of `stream.sources`. Without the rights on the history topic, or "
    "without Read on the signals topic, the stream writes signals but no history, and its log names the missing right. "
    + _NO_LEASE.format(part="stream"),
)
TUNE = Role(
    name="tune",
    title="`rheostat tune`",
    permissions=(
        _cluster(
            "Describe DescribeConfigs AlterConfigs",
            "throttles and cordons of brokers, limits of copies between log directories, mutation quotas",
        ),
        _cluster(
            "Alter",
            "plans (not needed with `tuner.reassign.enabled: false`), and elections of preferred leaders (`tuner.leadership: act`)",
            is_for_plans_and_leaders=True,
        ),
        _topic(
            "Describe DescribeConfigs AlterConfigs",
            ALL,
            "throttled-replica lists; the create probe, which measures the latency of topic creations",
        ),
        _topic("Read", f"{PREFIX}.signals", "signals"),
        _WEEK,
        _topic("Read Write", f"{PREFIX}.orders", "orders, also orders over HTTP"),
        _topic("Read Write", f"{PREFIX}.journal", "decisions and managed settings"),
        _topic("Write", f"{PREFIX}.inputs", "decision inputs"),
        _PROFILES,
        _group(_LEASE, "the lease (the right to act), which only one tuner has"),
        Permission(
            operations=("Describe", "Write"),
            kind=ResourceKind.TRANSACTIONAL_ID,
            name=_LEASE,
            purpose="fencing: Kafka refuses records of a tuner that has lost the lease",
        ),
        _group(
            lease_group(""),
            "optional: to find tuners that use another name for the same cluster",
            "Describe",
            is_prefix=True,
        ),
    ),
)
TUNE_DRY_RUN = Role(
    name="tune",
    title="`rheostat tune` in a dry run",
    permissions=(
        _cluster("Describe DescribeConfigs", "brokers, reassignments, current settings"),
        _topic("Describe DescribeConfigs", ALL, "moving partitions"),
        _topic("Read", f"{PREFIX}.signals", "signals"),
        _topic("Read", f"{PREFIX}.orders", "orders"),
        _topic("Read Write", f"{PREFIX}.journal", "decisions"),
        _topic("Write", f"{PREFIX}.inputs", "decision inputs"),
        _WEEK,
        _PROFILES,
    ),
)
LEARN = Role(
    name="learn",
    title="`rheostat learn`",
    permissions=(
        _topic("Read Describe DescribeConfigs", f"{PREFIX}.history", "the history"),
        _topic(_ALL_OWN, f"{PREFIX}.profiles", "to write profiles; to read which profiles have changed"),
    ),
)
READ = Role(
    name="read",
    title="`rheostat status`, `signals`, `plan`",
    permissions=(
        _cluster("Describe DescribeConfigs", "current settings"),
        _topic("Describe DescribeConfigs", ALL, "moving partitions"),
        _topic("Read", f"{PREFIX}.signals", "signals"),
        _topic("Read", f"{PREFIX}.orders", "orders"),
        _topic("Read", f"{PREFIX}.journal", "decisions, running tuners"),
        _topic("Read", f"{PREFIX}.inputs", "optional: decision inputs, for `rheostat replay`"),
        _topic("Read", f"{PREFIX}.rejects", "optional: records that the stream refused"),
        *(
            _group(lease_group(CLUSTER, part), f"optional: which {name} is active", "Describe")
            for part, name in (("collect", "collector"), ("stream", "stream"))
        ),
    ),
)
OPERATE = Role(
    name="operate",
    title="`rheostat pause`, `resume`, `override`",
    permissions=(
        _cluster("DescribeConfigs", "the rate that `override` would change"),
        _topic("Read Write DescribeConfigs", f"{PREFIX}.orders", "the order"),
        _topic("Read", f"{PREFIX}.journal", "to see whether a tuner has acknowledged the order"),
    ),
)
CALIBRATE = Role(
    name="calibrate",
    title="`rheostat quotas measure`, `calibrate`",
    permissions=(
        _cluster("Describe DescribeConfigs", "reassignments, quotas, settings of the quota window"),
        _cluster(
            "AlterConfigs",
            "a quota too high to limit a client, because Kafka measures only clients that have a quota; not needed for `calibrate`",
        ),
        _topic("Describe DescribeConfigs", ALL, "to see whether partitions move, or leave the ISR"),
        _topic(
            "AlterConfigs Create Alter Delete",
            f"{PREFIX}.calibrate.",
            "the topics of a calibration; not needed for `measure`",
            is_prefix=True,
        ),
        _topic("Read Write DescribeConfigs", f"{PREFIX}.orders", "the record that names the user who measures"),
        _topic("Read", f"{PREFIX}.journal", "to see whether a tuner acts"),
    ),
)

# In the order of the page.
ROLES = (CREATE, COLLECT, STREAM, TUNE, TUNE_DRY_RUN, LEARN, READ, OPERATE, CALIBRATE)
ROLE_NAMES = tuple(dict.fromkeys(role.name for role in ROLES))
