"""The reference of error messages, collected from the ``raise`` statements of the code.

A message is the first literal argument of the exception. A variable becomes a placeholder in capitals: ``{path}`` becomes PATH.
An ellipsis stands for an expression, for a variable whose name tells a reader nothing, and for several variables without a word
between them. A constant of the code becomes its value. An exception that only passes on the text of another exception adds no
entry.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from docs_build.error_cures import CURES, DEFAULT_CURES
from docs_build.page import ROOT, paragraph, sentence

COMMAND_ERROR = "CommandError"
# Exceptions whose text a command, the log or the API prints. The subclasses of CommandError are added to them.
PRINTED = frozenset(
    {
        "AgentAccessError", "ClusterError", "CredentialsError", "JournalError", "JournalLost", "JournalUnreadable",
        "LoginError", "MissingPermission", "NoPlacementError", "NoSuchMove", "OlderRecordError", "OrderNotRecorded", "PemError",
        "PortError", "ProbeFailed", "StreamError", "UnknownFormatError", "Unreachable", "UnreadableBatchError",
        "typer.BadParameter",
    }
)  # fmt: skip
# A ValueError reaches the operator where it is raised by a check of the settings, of a scenario, or of a number with a unit.
CHECKS = ("settings", "units.py", "scenario_schema.py", "schema_types.py", "numbers.py")
NOT_CHECKS = ("throttle_settings.py", "settings_snapshot.py")

ELLIPSIS = "…"
# Placeholders of variables whose own name would not tell enough.
PLACEHOLDERS = MappingProxyType(
    {
        "ago_s": "NUMBER",
        "at": "FILE:LINE: KEY: …",
        "by": "OPERATOR",
        "ca": "PATH",
        "cafile": "FILE",
        "call": "REQUEST",
        "caller_name": "NAME",
        "config": "FILE",
        "connect_s_max": "NUMBER",
        "detail": "REASON",
        "EVERY_S_MAX": "NUMBER",
        "every_s": "NUMBER",
        "file_name": "FILE",
        "former": "OLD_NAME",
        "from_text": "TIME",
        "home": "FOLDER",
        "i": "NUMBER",
        "invoked_subcommand": "COMMAND",
        "known": "CLUSTERS",
        "lock": "FILE",
        "major": "VERSION",
        "missing": "REASON",
        "key_and_value": "KEY: VALUE",
        "out": "FILE",
        "parent": "FOLDER",
        "password": "PATH",
        "plan_id": "ID",
        "plot": "FILE",
        "position": "FILE:LINE",
        "pressure": "REASON",
        "SILENCE_S_MAX": "NUMBER",
        "submitted_by": "OPERATOR",
        "title": "PROGRAM",
        "to_text": "TIME",
        "unrest": "REASON",
        "wait_s": "NUMBER",
        "why": "REASON",
        "written": "TOPIC",
    }
)
# Variables that hold a whole phrase, or any value. Their names would only confuse a reader.
PHRASES = frozenset(
    {
        "available", "check", "choices", "configs", "difference", "expected", "fault", "found", "given", "last_problem",
        "moving", "place", "problem", "progress", "reason", "refusal", "shown", "start", "strerror", "text", "value",
        "verify_message", "vital_end", "what", "where",
    }
)  # fmt: skip

# A heading, and the beginnings of the paths whose errors stand under this heading. The first heading that fits is used.
GROUPS = (
    ("Settings", ("rheostat/config/", "tuner/settings/", "streaming/settings.py", "streaming/collector/settings.py",
                  "streaming/shared/metrics_settings.py", "streaming/shared/unit_settings.py", "streaming/shared/units.py",
                  "streaming/shared/kafka/settings.py")),
    ("Start of a process", ("rheostat/run/", "rheostat/jvm/", "rheostat/connectivity/", "tuner/wiring/", "tuner/api/auth.py",
                            "tuner/api/certificate.py", "streaming/collector/jmx.py")),
    ("Login to Kafka", ("streaming/shared/kafka/access_tokens.py", "streaming/shared/kafka/mechanisms.py",
                        "streaming/shared/kafka/secrets.py", "streaming/shared/kafka/token_source.py")),
    ("Stream", ("streaming/checkpoint", "streaming/local_notes.py", "streaming/runner.py", "streaming/sources.py",
                "streaming/storage.py",
                "streaming/session.py", "streaming/formats/", "streaming/failure_causes.py")),
    ("Cluster and journal", ("streaming/shared/", "tuner/journal/", "rheostat/journal/", "rheostat/tuner_presence.py")),
    ("rheostat status, signals, throttles, doctor", ("rheostat/status/", "rheostat/signals/", "rheostat/throttles/",
                                                     "rheostat/doctor/")),
    ("rheostat pause, resume, override, release", ("rheostat/orders/", "tuner/api/orders_api.py", "rheostat/console/")),
    ("rheostat plan", ("rheostat/plan/", "tuner/planning/")),
    ("rheostat reassign", ("rheostat/reassign/",)),
    ("rheostat quotas", ("rheostat/quotas/",)),
    ("rheostat limits", ("rheostat/limits/",)),
    ("rheostat fetchers", ("rheostat/fetchers/",)),
    ("rheostat replay", ("rheostat/replay/",)),
    ("rheostat simulate", ("rheostat/simulate/", "tuner/simulation/")),
    ("rheostat demo and lab", ("rheostat/demo/", "rheostat/lab/")),
    ("Any command", ("",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """One message that the program can print.

    Attributes:
        kind: the class of the exception.
        pattern: the message with its variable parts in capitals.
        path: the file that raises the exception, relative to the repository.
    """

    kind: str
    pattern: str
    path: str

    @property
    def cure(self) -> str:
        """The cure for the operator: the cure whose key is the longest part of this message, else the cure of its class."""
        own = max((part for part in CURES if part in self.pattern), key=len, default="")
        return CURES.get(own) or DEFAULT_CURES.get(self.kind) or DEFAULT_CURES[COMMAND_ERROR]


def render_errors() -> str:
    """Returns a section for each group, and in it a heading for each message."""
    messages = collect_messages()
    lines = []
    for heading, paths in GROUPS:
        shown = sorted({m.pattern: m for m in messages if group_of(m.path) == heading}.values(), key=_sort_key)
        if paths and shown:
            lines += [f"\n## {heading}\n", *(_entry(message) for message in shown)]
    return "\n".join(lines)


def group_of(path: str) -> str:
    """Returns the heading under which the errors of a file stand."""
    return next(heading for heading, starts in GROUPS if path.startswith(starts))


def _sort_key(message: ErrorMessage) -> str:
    return message.pattern.lower().lstrip("-…` ")


def _entry(message: ErrorMessage) -> str:
    quote = "``" if "`" in message.pattern else "`"
    space = " " if quote == "``" else ""
    return f"### {quote}{space}{message.pattern}{space}{quote}\n\n{paragraph(f'{sentence(message.cure)}.')}\n"


@cache
def collect_messages(root: Path = ROOT) -> tuple[ErrorMessage, ...]:
    """Returns the messages of all ``raise`` statements whose exception is printed, without repeats."""
    trees = {
        path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for folder in ("rheostat", "tuner", "streaming")
        for path in sorted((root / folder).rglob("*.py"))
    }
    printed = PRINTED | command_errors(trees.values())
    constants = {path: _constants_of(tree) for path, tree in trees.items()}
    messages: dict[tuple[str, str], ErrorMessage] = {}
    for path, tree in trees.items():
        known = {**_imported_constants(tree, constants), **constants[path]}
        for kind, text in _raised(path, tree, printed, known):
            messages.setdefault((text, path), ErrorMessage(kind, text, path))
        for text in _settings_faults(tree, known):
            messages.setdefault((text, path), ErrorMessage("BadInputError", text, path))
    return tuple(messages.values())


def command_errors(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Returns the names of CommandError and of all classes derived from it."""
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    names = {COMMAND_ERROR}
    while more := {name for name, above in bases.items() if above & names} - names:
        names |= more
    return frozenset(names)


def _constants_of(tree: ast.Module) -> dict[str, object]:
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }


def _imported_constants(tree: ast.Module, constants: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Returns the constants that a module imports from other modules by name.

    Args:
        constants: the constants of each module, by its path.
    """
    imported: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            source = constants.get(f"{node.module.replace('.', '/')}.py", {})
            imported |= {name.asname or name.name: source[name.name] for name in node.names if name.name in source}
    return imported


def _raised(
    path: str, tree: ast.Module, printed: frozenset[str], constants: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    name = path.rpartition("/")[2]
    is_check = any(part in path for part in CHECKS) and name not in NOT_CHECKS
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
            continue
        kind = ast.unparse(node.exc.func)
        if kind in printed or (kind == "ValueError" and is_check):
            for position, argument in enumerate(node.exc.args):
                text = pattern_of(argument, constants)
                if text is not None:
                    yield kind, _with_prefix(kind, text, path, node.exc, position)
                    break


def _settings_faults(tree: ast.Module, constants: Mapping[str, object]) -> Iterator[str]:
    """Yields the texts that a function ``_fault_text`` returns about a key of the settings, with the place before them."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == "_fault_text":
            for node in ast.walk(function):
                text = (
                    pattern_of(node.value, constants)
                    if isinstance(node, ast.Return) and node.value is not None
                    else None
                )
                if text is not None:
                    yield f"FILE:LINE: {text}"


def _with_prefix(kind: str, text: str, path: str, call: ast.Call, position: int) -> str:
    """Returns the message with the text that the program prints before it: the option, the settings key, or the kind of fault."""
    if kind == "typer.BadParameter":
        hint = next((word.value for word in call.keywords if word.arg == "param_hint"), None)
        option = pattern_of(hint, {}) if hint is not None else None
        return f"{option.strip(chr(39))}: {text}" if option else text
    if kind == "MissingPermission":
        return f"missing right: {text}" if position == 0 else f"missing right: … (Kafka refused {text})"
    if kind == "ValueError" and not text.startswith(("environment:", "NAME:", "WHERE:", "PATH:")):
        return f"OPTION: {text}" if path.endswith("numbers.py") else f"FILE:LINE: KEY: {text}"
    return text


def pattern_of(node: ast.expr, constants: Mapping[str, object]) -> str | None:
    """Returns the message of a literal; None if the expression is no literal, or has no words of its own."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    elif isinstance(node, ast.JoinedStr):
        text = _joined_pattern(node, constants)
    else:
        return None
    text = " ".join(text.split())
    return text if any(letter.islower() for letter in text) else None


def _joined_pattern(node: ast.JoinedStr, constants: Mapping[str, object]) -> str:
    parts, follows_variable = list[str](), False
    for part in node.values:
        literal = _literal_of(part, constants)
        if literal is not None:
            parts.append(literal)
        elif follows_variable:
            parts[-1] = ELLIPSIS
        else:
            parts.append(_placeholder(part))
        follows_variable = literal is None
    text = "".join(parts)
    # An ellipsis ends a sentence without a full stop.
    return text.removesuffix(".") if text.endswith(f"{ELLIPSIS}.") else text


def _literal_of(part: ast.expr, constants: Mapping[str, object]) -> str | None:
    """Returns the text of a literal part or of a constant; None for a variable or an expression."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    inner = part.value
    return str(constants[inner.id]) if isinstance(inner, ast.Name) and inner.id in constants else None


def _placeholder(part: ast.expr) -> str:
    """Returns the placeholder of a variable or an expression."""
    assert isinstance(part, ast.FormattedValue)
    inner = part.value
    name = inner.id if isinstance(inner, ast.Name) else inner.attr if isinstance(inner, ast.Attribute) else ""
    name = name.strip("_")
    # ``type(error).__name__`` is the name of a class.
    if not name or name in PHRASES or (isinstance(inner, ast.Attribute) and inner.attr == "__name__"):
        return ELLIPSIS
    return PLACEHOLDERS.get(name, name.upper())
