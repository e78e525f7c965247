"""Reads a YAML file and keeps the line of each key, so that each error can name the line.

Invariant: a repeated key is an error, because the YAML parser would silently take the last value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from rheostat.config import unknown_keys
from rheostat.errors import BadInputError

Path = tuple[str | int, ...]  # Keys and positions from the outermost value inwards.
V = TypeVar("V")


class YamlFile:
    """The content of a YAML file (``body``), and the line of each key."""

    def __init__(self, text: str, name: str, *, may_be_empty: bool = False) -> None:
        """
        Raises:
            BadInputError: the text is not YAML, not a mapping, or repeats a key.
        """
        self.name = name
        self._lines: dict[tuple[str, ...], int] = {}
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            if node is not None:
                self._index(node, ())
            body = yaml.safe_load(text)
        # An impossible date, such as 2026-02-30, raises a plain ValueError.
        except (yaml.YAMLError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            position = name if mark is None else f"{name}:{mark.line + 1}"
            raise BadInputError(f"{position}: not YAML: {getattr(error, 'problem', None) or error}") from error
        if body is None and may_be_empty:
            body = {}
        if not isinstance(body, dict):
            found = "nothing" if body is None else type(body).__name__
            raise BadInputError(f"{name}:1: expected keys and values, found {found}")
        self.body: dict[Any, Any] = body

    def fault(self, at: Path, message: str) -> str:
        """Returns an error line: file, line of the key or of the nearest key around it, key, message."""
        return f"{self.name}:{self.line_of(at) or 1}: {dotted(at)}: {message}"

    def line_of(self, at: Path) -> int | None:
        """Returns the line of a key; if the key is missing, the line of the nearest key around it."""
        return _longest_prefix(self._lines, at)

    def faults(
        self,
        error: ValidationError,
        model: type[BaseModel],
        variables: Mapping[tuple[str, ...], str] = MappingProxyType({}),
        is_repeated: Callable[[Any], bool] = lambda _: False,
    ) -> list[str]:
        """Returns an error line for each fault that pydantic found.

        Args:
            model: the model of the whole file.
            variables: names the environment variable or the credential of each key that was set outside the file.
            is_repeated: whether a fault has been reported at another place.
        """
        # If an item of a list is wrong, pydantic also reports that the list is too short. Only an empty list really is too short.
        faults = (f for f in error.errors() if not (f["type"] == "too_short" and f["input"]) and not is_repeated(f))
        return [f"{self._source(fault, variables)}: {self._fault_text(fault, model)}" for fault in faults]

    def _source(self, fault: Any, variables: Mapping[tuple[str, ...], str]) -> str:
        """Returns where the faulty value was set: file and line, an environment variable, or a credential."""
        at = self._place(fault)
        # A variable may set a whole structure, although only a part of the structure is wrong.
        variable = _longest_prefix(variables, at)
        return f"{self.name}:{self.line_of(at) or 1}" if variable is None else variable

    def _place(self, fault: Any) -> Path:
        """Returns the path of the fault in the file; for a bad tag of a union, the path of the tag's key."""
        at = _without_tags(fault["loc"], self.body)
        if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
            return (*at, str(fault["ctx"]["discriminator"]).strip("'"))
        return at

    def _fault_text(self, fault: Any, model: type[BaseModel]) -> str:
        """Returns the key, what is wrong, and the value unless it is a secret or a structure."""
        key, kind = dotted(self._place(fault)), fault["type"]
        models = _models_at(model, fault["loc"][:-1])
        if kind == "extra_forbidden":
            known = sorted({name for m in models for name in m.model_fields})
            return f"{key}: unknown key: {unknown_keys.hint(str(fault['loc'][-1]), known)}"
        if kind == "missing":
            fields = (m.model_fields.get(str(fault["loc"][-1])) for m in models)
            return f"{key}: is missing: {next((field.description for field in fields if field is not None), None)}"
        if kind in ("union_tag_invalid", "union_tag_not_found"):
            tags = str(fault["ctx"].get("expected_tags") or "").replace("'", "")
            expected = f"expected one of {tags}" if tags else "expected the kind of this item"
            return f"{key}: {expected}, found {fault['ctx'].get('tag', 'none')}"
        if kind == "too_short":
            return f"{key}: expected at least one, found none"
        given, message = fault.get("input"), str(fault["msg"]).removeprefix("Value error, ")
        # A single value in place of a whole section may be a secret at the wrong level.
        is_secret = any(word in key for word in ("password", "token", "secret")) or bool(
            _models_at(model, fault["loc"])
        )
        is_hidden = is_secret or isinstance(given, dict | list | tuple) or ", found " in message
        return f"{key}: {message[:1].lower()}{message[1:]}" + ("" if is_hidden else f", found {given!r}")

    def _index(self, node: yaml.Node, at: tuple[str, ...], around: tuple[yaml.Node, ...] = ()) -> None:
        """Records the line of each key under ``at``.

        Args:
            around: the values that contain this one.

        Raises:
            BadInputError: a key is repeated, or a value contains itself.
        """
        if any(outer is node for outer in around):
            raise BadInputError(
                f"{self.name}:{self.line_of(at) or 1}: {dotted(at)}: the alias refers to a value that contains the alias"
            )
        around = (*around, node)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                here, line = (*at, str(key.value)), key.start_mark.line + 1
                if here in self._lines:
                    raise BadInputError(
                        f"{self.name}:{line}: {dotted(here)} is repeated; it is already in line {self._lines[here]}"
                    )
                self._lines[here] = line
                self._index(value, here, around)
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                self._lines[(*at, str(i))] = value.start_mark.line + 1
                self._index(value, (*at, str(i)), around)


def _longest_prefix(values: Mapping[tuple[str, ...], V], at: Path) -> V | None:
    """Returns the value of the longest beginning of the path that has a value; None if no beginning has one."""
    keys = tuple(map(str, at))
    prefixes = (keys[:length] for length in range(len(keys), 0, -1))
    return next((values[prefix] for prefix in prefixes if prefix in values), None)


def dotted(at: Path) -> str:
    """Returns a path as text: ``stream.sources[0].topic``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
    return text.removeprefix(".") or "the file"


def _without_tags(loc: Path, body: Any) -> Path:
    """Returns a path of pydantic without the tags of unions, which are not keys of the file."""
    at: list[str | int] = []
    inside = body
    for part in loc:
        if isinstance(inside, Mapping) and part not in inside and part in inside.values():
            continue
        at.append(part)
        try:
            inside = inside[part]
        except (KeyError, IndexError, TypeError):
            inside = None
    return tuple(at)


def _models_at(model: type[BaseModel], loc: Path) -> list[type[BaseModel]]:
    """Returns the models that are possible at this path: several models if the path leads to a union of types."""
    models, is_name = [model], False
    for part in loc:
        if isinstance(part, int) or is_name:
            is_name = False
            continue  # The model of the items of a list or mapping is found by the key of the list or mapping.
        fields = [m.model_fields[part] for m in models if part in m.model_fields]
        if fields:
            is_name = any(get_origin(field.annotation) is dict for field in fields)
            models = [inner for field in fields for inner in _models_in(field.annotation)]
        else:
            models = [m for m in models if part in _tags(m)]
    return models


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the models that an annotation such as ``tuple[A | B, ...]`` names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        arguments = arguments[:1]  # The others are metadata.
    for argument in arguments:
        yield from _models_in(argument)


def _tags(model: type[BaseModel]) -> set[Any]:
    """Returns the literal values of the model's fields; one of them tells the model from the other types of a union."""
    return {tag for field in model.model_fields.values() for tag in get_args(field.annotation)}
