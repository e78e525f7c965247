"""Refuses query parameters that a route does not know.

A misspelt filter would otherwise be answered as if it were not there. Each unknown parameter would also be another key of the
answers that are kept, so that the same answer would be made again for each.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.exceptions import RequestValidationError


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of routes.

    Raises:
        RequestValidationError: names the parameters that the route does not know.
    """
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        raise RequestValidationError(
            [{"type": "extra_forbidden", "loc": ("query", name), "msg": "unknown"} for name in unknown]
        )
