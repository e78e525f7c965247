"""Whatever a decision may depend on is on record: what is left out is read by nobody who decides."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import tuner.decide
from tuner.decide.course import LawView
from tuner.journal.shapes import LEFT_OUT
from tuner.model.cluster import Observation

# What the law of the mutation quotas sees is not on film: `rheostat replay` does not replay it.
DECIDING = sorted(p for p in Path(tuner.decide.__file__).parent.glob("*.py") if not p.stem.startswith("mutation_"))


def test_nobody_who_decides_reads_what_is_left_out() -> None:
    read = {
        node.attr
        for path in DECIDING
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    left_out = {name for names in LEFT_OUT.values() for name in names}
    assert "network_in_bytes_per_s" in read, "the search above finds nothing"
    assert read & left_out == set(), "take them off LEFT_OUT: what is decided by has to be on record"


def test_all_of_what_is_observed_is_on_record() -> None:
    """Of what is remembered, and of the cluster, new fields go on record by themselves; of these two they do not."""
    told = "what is new here belongs into journal/seen.py, journal/members.py and replay/play.py"
    seen = {"now_ms", "live", "brokers", "moves", "busy", "courses", "orders"}
    assert {f.name for f in fields(Observation)} == seen, told
    asked = {"now_ms", "brokers", "moves", "rates", "capacities", "stalled", "recovering"}
    assert {f.name for f in fields(LawView)} == asked, told
