"""Refuses query parameters that a route does not know.

Otherwise a misspelt filter would be ignored silently. Each unknown parameter would also add a key to the response cache.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.exceptions import RequestValidationError


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuses unknown parameters; a dependency of routes.

    Raises:
        RequestValidationError: names the parameters that the route does not know.
    """
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        raise RequestValidationError(
            [{"type": "extra_forbidden", "loc": ("query", name), "msg": "unknown"} for name in unknown]
        )
