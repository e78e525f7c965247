"""Parameters that several routes have, and the refusal of query parameters that a route does not know.

Without the refusal, a misspelt filter would be ignored silently. Each unknown parameter would also add a key to the response cache.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError

from tuner.api import response_models

BrokerId = Annotated[int, Path(ge=0, le=response_models.BROKER_MAX, description="the broker's id")]


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuses unknown parameters; a dependency of routes.

    Raises:
        RequestValidationError: names the parameters that the route does not know.
    """
    if unknown := sorted(set(request.query_params) - _query_names(request.scope["route"].dependant)):
        raise RequestValidationError(
            [{"type": "extra_forbidden", "loc": ("query", name), "msg": "unknown"} for name in unknown]
        )


def _query_names(dependant: Dependant) -> set[str]:
    """Returns the query parameters of a route and of its dependencies."""
    names = {field.alias for field in dependant.query_params}
    return names.union(*(_query_names(dependency) for dependency in dependant.dependencies))
