"""Sentences of the documentation that count or list rheostat's topics and processes agree with the code."""

from __future__ import annotations

import pytest

from docs_build.page import ROOT
from rheostat.run.supervisor import LEARN, SHARED_PARTS
from streaming.shared.contract import Topics
from streaming.shared.topics import TopicSpec, topic_specs

PARTS = (*SHARED_PARTS, "tune")
NUMBERS = {3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
TOPIC_COUNT = NUMBERS[len(Topics.__slots__)]
PROCESS_COUNT = NUMBERS[len((*PARTS, LEARN))]
RECORDS_PAGE = "docs/reference/topics-and-records.md"


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("README.md", f"| creation of the {TOPIC_COUNT} topics `rheostat.*` |"),
        ("docs/how-to/install.md", f"| {TOPIC_COUNT} topics named `rheostat.*`,"),
        ("docs/tutorials/your-cluster.md", f"The dry run has created {TOPIC_COUNT} topics"),
        ("README.md", f"for all {PROCESS_COUNT} processes"),
        ("SECURITY.md", f"all {PROCESS_COUNT} processes"),
        ("docs/index.md", f"rheostat has {PROCESS_COUNT} processes:"),
        ("docs/how-to/secure.md", f"starts all {PROCESS_COUNT} processes"),
        ("docs/how-to/use-beside-strimzi.md", f"the rights of all {PROCESS_COUNT} processes"),
        ("docs/how-to/wire-prometheus.md", f"rheostat's {PROCESS_COUNT} processes"),
        ("docs/images/architecture.svg", f"/metrics of all {PROCESS_COUNT} processes"),
    ],
)
def test_sentence_counts_as_the_code(page: str, sentence: str) -> None:
    assert sentence in text_of(page)


@pytest.mark.parametrize("name", Topics.__slots__)
@pytest.mark.parametrize("page", [RECORDS_PAGE, "docs/reference/permissions.md"])
def test_table_of_topics_has_a_row_for_each_topic(page: str, name: str) -> None:
    assert f"\n| `<prefix>.{name}` |" in text_of(page)


@pytest.mark.parametrize("part", [*PARTS, LEARN])
def test_footprint_has_a_row_for_each_process(part: str) -> None:
    assert f"\n| `{part}` |" in text_of("docs/how-to/install.md")


@pytest.mark.parametrize(
    ("row", "setting", "value"),
    [
        ("| `max.message.bytes` | 16 MiB for ", "max.message.bytes", str(16 * 1024 * 1024)),
        ("| `segment.ms`, `min.cleanable.dirty.ratio` | 1 h and 0.2 for ", "min.cleanable.dirty.ratio", "0.2"),
        ("| `segment.ms` | 1 d for ", "segment.ms", "86400000"),
    ],
)
def test_settings_table_lists_the_topics_of_a_setting(row: str, setting: str, value: str) -> None:
    topics = Topics.with_prefix("rheostat")
    expected = {_short_name(spec) for spec in topic_specs(topics) if spec.configs.get(setting) == value}
    (line,) = (line for line in text_of(RECORDS_PAGE).splitlines() if line.startswith(row))
    listed = line.removeprefix(row).split(" |")[0]
    assert set(listed.replace(" and ", ", ").split(", ")) == expected


def _short_name(spec: TopicSpec) -> str:
    return spec.name.removeprefix("rheostat.")
