"""Reads a world that ``World.to_json`` has written."""

from __future__ import annotations

import json
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from tuner.simulation.world import Disturbance, World

_KINDS = {kind.__name__: kind for kind in get_args(Disturbance)}
_WORLD = TypeAdapter(World)


def read_world(text: str) -> World:
    """Returns the world.

    Raises:
        ValueError: the text is no JSON, or no world.
    """
    body = json.loads(text)
    if not isinstance(body, dict):
        raise ValueError("expected a world: a JSON object")
    try:
        disturbances = tuple(_read_disturbance(item) for item in body.get("disturbances", ()))
        return _WORLD.validate_python({**body, "disturbances": disturbances})
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise ValueError(f"{at}: {first['msg']}") from error


def _read_disturbance(item: Any) -> Disturbance:
    kind = _KINDS.get(item.get("kind", "")) if isinstance(item, dict) else None
    if kind is None:
        raise ValueError(f"disturbances: expected one of {', '.join(_KINDS)}, found {str(item)[:80]}")
    disturbance: Disturbance = TypeAdapter(kind).validate_python(
        {key: value for key, value in item.items() if key != "kind"}
    )
    return disturbance
