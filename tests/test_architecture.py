"""The rules about imports, and the purity of the pure modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PURE = [path for room in ("control", "planning", "core") for path in sorted((ROOT / "tuner" / room).rglob("*.py"))]
PURE += sorted((ROOT / "learning" / "models").rglob("*.py"))
PURE += [
    ROOT / "streaming" / "shared" / name for name in ("units.py", "short_lists.py")
]  # Decisions write their sentences with these.
# import-linter does not see modules of the standard library.
IMPURE_MODULES = {
    "time",
    "datetime",
    "random",
    "os",
    "socket",
    "threading",
    "subprocess",
    "pathlib",
    "secrets",
    "uuid",
    "sys",
}
IMPURE_NAMES = {"open", "print", "input"}


def test_imports_follow_the_layers() -> None:
    """Runs import-linter with the contracts of pyproject.toml."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", PURE, ids=lambda p: str(p.relative_to(ROOT)))
def test_pure_modules_use_no_clock_and_no_io(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {
        node.module.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
    }
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not imported & IMPURE_MODULES
    assert not called & IMPURE_NAMES


def test_pure_modules_are_found() -> None:
    assert len(PURE) >= 12, "the list above found too little to check"


def test_tuner_loads_no_spark() -> None:
    program = "import sys, tuner.app; print(sorted(m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_tuner_loads_no_river() -> None:
    program = "import sys, tuner.app; print('river' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


# The clients of kafka-python, and the modules that may create one. Each takes its connection from KafkaSettings.
KAFKA_CLIENTS = {"KafkaAdminClient", "KafkaConsumer", "KafkaNetClient", "KafkaProducer", "KafkaConnectionManager"}
CREATORS = {"streaming/shared/kafka/clients.py", "rheostat/demo/probe.py"}
SPARK_CONNECTORS = {"streaming/sources.py", "streaming/sinks.py"}


def product_calls() -> list[tuple[str, ast.Call]]:
    files = [
        path for room in ("streaming", "tuner", "learning", "rheostat") for path in sorted((ROOT / room).rglob("*.py"))
    ]
    return [
        (path.relative_to(ROOT).as_posix(), node)
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]  # fmt: skip


def test_every_kafka_client_takes_its_connection_from_the_settings() -> None:
    """A login that one process understands is then understood by all of them."""
    created = [
        (file, call) for file, call in product_calls()
        if getattr(call.func, "id", getattr(call.func, "attr", None)) in KAFKA_CLIENTS
    ]  # fmt: skip
    assert {file for file, _ in created} == CREATORS
    for file, call in created:
        whole = (ROOT / file).read_text()
        assert any(keyword.arg is None for keyword in call.keywords), f"{file}:{call.lineno} names its settings itself"
        assert "kafka_python_arguments()" in whole
    of_spark = {
        file for file, call in product_calls()
        if getattr(call.func, "attr", None) == "format" and [getattr(a, "value", None) for a in call.args] == ["kafka"]
    }  # fmt: skip
    assert of_spark == SPARK_CONNECTORS
    for file in of_spark:
        text = (ROOT / file).read_text()
        assert "kafka_options(kafka)" in text
        assert "bootstrap.servers" not in text
