"""Scrapes in, entity rows out: everything a scrape says, folded to a few small rows before any state.

Intuition: state is what a stream processor pays for. A scrape has dozens of samples, or thousands of partitions; what the
signals are made of is two short arrays an entity. So names are looked up here, once, and never again.

Vocabulary:
    entity    what a signal is about, by ``cluster, kind, node, part``: a broker, a controller, one side of a broker that
              moves or throttles replicas (part: the side), a tenant on a controller (part: its labels).
    kind      one of contract.py's, or ``reject``: a refused record travels as an entity (part: its place, one of so many for
              each partition), since a second way out would be a second parsing of the topic.
    at_ms     when Kafka took the record; what windows and watermark go by. Every clock but that one may be wrong.
    own_ms    the sender's clock; what rates are measured by. Its error cancels out.
    ts        the time to show: the sender's while it agrees with Kafka's, otherwise Kafka's.
    every_ms  the source's scrape interval; how long a gauge is good for.
    whole     a format that brings all of a scrape in one record. Others bring a metric a record; ``signals`` puts them
              together again by ``own_ms``, so here nothing may be summed or multiplied across samples.
    sure      this row alone tells that the node is a broker, or a controller. Much is measured on both.
    sums      of counters that are summed over labels: index of the counter, labels, value. Only in rows that are not whole.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streaming import partitions
from streaming.contract import SCHEMA_VERSION, Role, Side
from streaming.formats.common import VALUE_MAX, Format, Source, is_number, let
from streaming.wanted import (
    BROKER_COUNTERS,
    BROKER_GAUGES,
    CONTROLLER_COUNTERS,
    CONTROLLER_GAUGES,
    LABELLED,
    NAMES,
    SUMMED,
    SURELY_BROKERS,
    SURELY_CONTROLLERS,
    TENANT_GAUGES,
    Wanted,
)

REJECT = "reject"
HEAD_BYTES = 256
KEYS = ("cluster", "kind", "node", "part")
# What the state keeps of an entity at one time, as JSON: one string is cheaper to carry through the four steps of a stateful
# operator than its parts, and reading it back gives Java objects and not the binary form (see formats/common.py).
ROW_TYPE = (
    "struct<own_ms long, ts long, at_ms long, every_ms long, sure boolean, counters array<long>, gauges string,"
    f" sums array<struct<i int, l string, v long>>, partitions {partitions.PARTITIONS_TYPE}, note string, seen_ms long>"
)

CLOCK_ERROR_MS_MAX = 30_000
# A topic with message.timestamp.type=CreateTime carries its senders' clocks; one that is fast would end everybody's
# windows. What Kafka cannot have taken yet is taken to have come now.
AHEAD_MS_MAX = 5_000  # Half the lateness: others must not be late by it.


def entities(
    raw: DataFrame,
    format_: Format,
    source: Source,
    every_ms: int,
    *,
    whole: bool,
    kafka: str = "",
    apart_ms: int = 0,
    places: int | None = None,
) -> DataFrame:
    """Records of one source (``formats.common.RAW``) → rows of ``KEYS``, ``time`` (event time), ``at_ms`` and ``row``.

    Args:
        every_ms: the source's scrape interval.
        kafka: which Kafka cluster has its topics; two of them may use one name for a topic.
        apart_ms: by how much longer than lateness alone asks the watermark waits for the slowest source.
        places: for refused records of each partition; None: one for each of them, where there is no state to be filled.
            The offsets of a batch follow one another, so as long as it has no more of a partition, each has a place of its own.
    """
    rows = F.flatten(
        F.transform(format_(source), lambda scrape: _fold(scrape, every_ms, whole, kafka, apart_ms, places))
    )
    return raw.select(F.inline(rows)).select(*KEYS, F.timestamp_millis("at_ms").alias("time"), "at_ms", "row")


def _fold(scrape: Column, every_ms: int, whole: bool, kafka: str, apart_ms: int, places: int | None) -> Column:
    """A scrape → array of its entities."""
    now_ms = F.unix_millis(F.current_timestamp())
    at_ms = F.least(F.unix_millis("timestamp"), now_ms + AHEAD_MS_MAX)
    return let(
        at_ms,
        lambda at_ms: F.when(
            scrape.reason.isNotNull(), F.array(_reject(scrape, at_ms, now_ms, kafka, apart_ms, places))
        ).otherwise(
            let(
                _times(scrape.ts, at_ms, now_ms, every_ms),
                lambda times: let(_parts(scrape.samples, whole), lambda parts: _entities(scrape, parts, times, whole)),
            )
        ),
    )


def _times(ts: Column, at_ms: Column, now_ms: Column, every_ms: int) -> Column:
    # A time far out of any range would overflow in sums. Not abs(own - at), which would do so here.
    own_ms = F.when(ts.between(0, 1 << 52), ts).otherwise(at_ms)
    agrees = own_ms.between(at_ms - CLOCK_ERROR_MS_MAX, at_ms + CLOCK_ERROR_MS_MAX)
    return F.struct(
        F.when(agrees, own_ms).otherwise(at_ms).alias("ts"),
        own_ms.alias("own_ms"),
        at_ms.alias("at_ms"),
        F.lit(every_ms).alias("every_ms"),
        now_ms.alias("seen_ms"),
    )


def _parts(samples: Column, whole: bool) -> Column:
    """``single``: what has no labels and is asked for; the names that nobody asks for are not hashed again. ``labelled``:
    all that have some; labelled or not is the cheapest thing to ask of each.
    """
    asked = [name for name in NAMES if not (whole and name in SUMMED)]
    return F.struct(
        F.filter(samples, lambda s: (s.l == "") & s.n.isin(asked)).alias("single"),
        F.filter(samples, lambda s: s.l != "").alias("labelled"),
    )


def _entities(scrape: Column, parts: Column, times: Column, whole: bool) -> Column:
    def entity(kind: str, part: Column, **measured: Column) -> Column:
        row = F.to_json(F.struct(*[times[name].alias(name) for name in _TIMES], *_aliased(measured)))
        return _entity(scrape.cluster, F.lit(kind), scrape.node, part, times.at_ms, row)

    def of_node(known: Column) -> Column:
        def values(wanted: Wanted) -> Column:
            keys = [name if not labels else f"{name} {labels}" for name, labels in wanted.values()]
            return F.transform(
                _literals(keys),
                lambda key: F.coalesce(F.try_element_at(known.single, key), F.try_element_at(known.labelled, key)),
            )

        def node(kind: str, counters: Wanted, gauges: Wanted, sure: Column) -> Column:
            sums = {} if whole else {"sums": _sums(known.summed, counters)}
            return let(
                F.struct(_whole(values(counters)).alias("counters"), values(gauges).alias("gauges"), *_aliased(sums)),
                lambda found: F.when(
                    # A row that says nothing of this kind of node is none.
                    sure
                    | _any(found.counters)
                    | _any(found.gauges)
                    | (F.lit(False) if whole else found.sums.isNotNull()),
                    entity(
                        kind,
                        F.lit(""),
                        sure=F.when(sure, sure),
                        counters=found.counters,
                        gauges=_text(found.gauges),
                        **({} if whole else {"sums": found.sums}),
                    ),
                ),
            )

        role = scrape.role
        is_broker, is_controller = role == Role.BROKER.value, role == Role.CONTROLLER.value
        return F.array(
            F.when(
                ~F.coalesce(is_controller, F.lit(False)),
                node(
                    "broker", BROKER_COUNTERS, BROKER_GAUGES, F.coalesce(is_broker, _names_one(parts, SURELY_BROKERS))
                ),
            ),
            # One process may be both.
            let(
                _names_one(parts, SURELY_CONTROLLERS),
                lambda sure: F.when(
                    sure | role.isNull(), node("controller", CONTROLLER_COUNTERS, CONTROLLER_GAUGES, sure)
                ),
            ),
        )

    def side(side: Side, moved: Callable[[Column], Column], samples: Column) -> Column:
        return let(
            moved(samples),
            lambda moved: F.when(F.size(moved) > 0, entity("move", F.lit(side.value), partitions=moved)),
        )

    def of_moves(moved: Column) -> Column:
        return F.when(
            F.size(moved) > 0,
            F.array(side(Side.LEADER, partitions.led, moved), side(Side.FOLLOWER, partitions.followed, moved)),
        ).otherwise(none)

    def of_tenants(tenants: Column) -> Column:
        def gauge(part: Column, name: str) -> Column:
            return F.get(F.filter(tenants, lambda s: (s.n == name) & (s.l == part)), F.lit(0)).v

        return F.transform(
            F.array_distinct(tenants.l),
            lambda part: entity(
                "tenant", part, gauges=let(F.array(*[gauge(part, n) for n in TENANT_GAUGES.values()]), _text)
            ),
        )

    none = F.array().cast(f"array<{_ENTITY_TYPE}>")
    return F.array_compact(
        F.concat(
            let(_known(parts, whole), of_node),
            F.when(
                F.size(parts.labelled) > 0,
                F.concat(
                    let(
                        F.filter(parts.labelled, lambda s: s.n.startswith(partitions.PREFIX) & is_number(s.v)), of_moves
                    ),
                    let(
                        F.filter(parts.labelled, lambda s: s.n.isin(sorted(TENANT_GAUGES.values()))),
                        of_tenants,
                    ),
                ),
            ).otherwise(none),
        )
    )


def _known(parts: Column, whole: bool) -> Column:
    """``single``: by name the samples without labels. ``labelled``: by "name labels" those with labels that somebody asks
    for, and of a whole scrape by name the sums over all labels. ``summed``: what goes into sums.
    """
    asked = F.filter(parts.labelled, lambda s: s.n.isin(LABELLED))
    single = F.map_from_arrays(parts.single.n, parts.single.v)
    labelled = F.transform(asked, lambda s: F.struct(F.concat_ws(" ", s.n, s.l).alias("k"), s.v.alias("v")))

    def known(summed: Column) -> Column:
        sums = F.transform(_literals(SUMMED), lambda name: F.struct(name.alias("k"), _sum(summed, name).alias("v")))
        more = F.map_from_entries(F.concat(labelled, sums) if whole else labelled)
        return F.struct(single.alias("single"), more.alias("labelled"), summed.alias("summed"))

    return let(F.filter(parts.labelled, lambda s: s.n.isin(SUMMED) & is_number(s.v)), known)


def _literals(texts: list[str]) -> Column:
    """One node of the plan, where an array of as many literals would be as many."""
    return F.split(F.lit("\n".join(texts)), "\n")


def _names_one(parts: Column, names: list[str]) -> Column:
    return F.exists(parts.single, lambda s: s.n.isin(names))


def _sums(samples: Column, counters: Wanted) -> Column:
    """The samples of counters that are summed over labels, each by itself; NULL when there is none."""
    index = {name: i for i, (name, labels) in enumerate(counters.values()) if labels is None}

    def place(name: Column) -> Column:
        found = F.lit(None).cast("int")
        for wanted, i in index.items():
            found = F.when(name == wanted, i).otherwise(found)
        return found

    mine = F.filter(samples, lambda s: s.n.isin(sorted(index)) & s.v.between(0, 1 << 62))
    kept = F.transform(mine, lambda s: F.struct(place(s.n).alias("i"), s.l.alias("l"), s.v.cast("long").alias("v")))
    return F.when(F.size(mine) > 0, kept)


def _sum(samples: Column, name: Column) -> Column:
    """Over all labels; NULL when there is none."""
    return F.aggregate(
        F.filter(samples, lambda s: s.n == name),
        F.lit(None).cast("double"),
        lambda total, s: F.coalesce(total, F.lit(0.0)) + s.v,
    )


def _whole(counters: Column) -> Column:
    """Kafka counts whole things. Digits are read back in half the time of fractions."""
    return let(
        counters,
        lambda counters: F.when(
            # Nearly always; a cast of all of them has no lambda to interpret.
            (F.array_min(counters) >= 0) & (F.array_max(counters) <= 1 << 62),
            counters.cast("array<long>"),
        ).otherwise(F.transform(counters, lambda c: F.when(c.between(0, 1 << 62), c.cast("long")))),
    )


def _text(gauges: Column) -> Column:
    """Of most rows nobody reads the gauges again: a text is skipped as a whole. ``records.latest`` takes it apart."""
    numbers = F.when(
        (F.array_min(gauges) > -VALUE_MAX) & (F.array_max(gauges) < VALUE_MAX), gauges.cast("array<string>")
    ).otherwise(F.transform(gauges, lambda g: F.when(is_number(g), g.cast("string"))))
    return F.array_join(numbers, ",", "")


def _any(values: Column) -> Column:
    return F.exists(values, lambda v: v.isNotNull())


_TIMES = ("ts", "own_ms", "at_ms", "every_ms", "seen_ms")
_ENTITY_TYPE = "struct<cluster string, kind string, node int, part string, at_ms long, row string>"


def _entity(cluster: Column, kind: Column, node: Column, part: Column, at_ms: Column, row: Column) -> Column:
    return F.struct(
        cluster.alias("cluster"),
        kind.alias("kind"),
        node.alias("node"),
        part.alias("part"),
        at_ms.alias("at_ms"),
        row.alias("row"),
    )


def _aliased(named: dict[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in named.items()]


def _reject(scrape: Column, at_ms: Column, now_ms: Column, kafka: str, apart_ms: int, places: int | None) -> Column:
    """An entity whose gauges and note are key and value of a record of the rejects topic (contract/scrapes.py)."""
    head = F.coalesce(F.substring("value", 1, HEAD_BYTES), F.lit(b""))
    note = F.to_json(
        F.struct(
            F.lit(SCHEMA_VERSION).alias("v"),
            *([F.lit(kafka).alias("kafka")] if kafka else []),
            F.col("topic"),
            F.col("partition"),
            F.col("offset"),
            scrape.reason.alias("reason"),
            F.translate(F.base64(head), "\r\n", "").alias("head"),  # Spark breaks base64 into lines.
        )
    )
    # It leaves in the batch it came in, and its state waits for nothing: without this a flood of refusals would fill the heap
    # for as long as the slowest source is waited for. Not before the watermark, that is, not earlier than it has to.
    place_ms = F.least(at_ms, now_ms - F.lit(apart_ms)) if apart_ms else at_ms
    topic = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    topic = F.concat_ws("|", F.lit(kafka), topic) if kafka else topic
    row = F.to_json(
        F.struct(
            now_ms.alias("seen_ms"),  # First: the greatest of these texts is one of the newest batch.
            place_ms.alias("ts"),
            place_ms.alias("at_ms"),
            # What a refusal has none of: its key.
            F.concat_ws("-", topic, F.col("offset").cast("string")).alias("gauges"),
            note.alias("note"),
        )
    )
    place = F.concat_ws("-", topic, (F.col("offset") % places if places else F.col("offset")).cast("string"))
    return _entity(F.lit(""), F.lit(REJECT), F.lit(-1), place, place_ms, row)
