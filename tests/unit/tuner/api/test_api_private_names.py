"""The private names of uvicorn and fastapi that tuner/api uses. Both are pinned; a new version has to pass this first."""

from __future__ import annotations

from importlib.metadata import requires, version
from inspect import iscoroutinefunction, signature
from typing import Any

import pytest
from fastapi import FastAPI
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


@pytest.mark.parametrize("name", ["fastapi", "uvicorn"])
def test_library_with_used_private_names_is_pinned(name: str) -> None:
    assert f"{name}=={version(name)}" in (requires("rheostat") or ())


def test_uvicorn_server_calls_the_replaced_methods() -> None:
    assert list(signature(Server.startup).parameters) == ["self", "sockets"]
    assert list(signature(Server.on_tick).parameters) == ["self", "counter"]
    assert iscoroutinefunction(Server.startup)
    assert iscoroutinefunction(Server.on_tick)
    for caller, name in ((Server._serve, "startup"), (Server.main_loop, "on_tick"), (Server.shutdown, "servers")):
        assert name in caller.__code__.co_names
    server: Any = Server(Config(FastAPI(), lifespan="off"))
    server.config.load()
    assert server.started is False
    assert {"config", "server_state"} <= vars(server).keys()
    assert "lifespan" in Server._serve.__code__.co_names


def test_uvicorn_protocol_has_the_replaced_methods() -> None:
    replaced = {
        "connection_made", "connection_lost", "data_received", "on_message_begin", "on_header", "on_headers_complete",
        "on_body", "on_message_complete", "on_response_complete", "pause_writing", "resume_writing", "send_400_response",
    }  # fmt: skip
    assert replaced <= vars(HttpToolsProtocol).keys()
    made = list(signature(HttpToolsProtocol.__init__).parameters)
    assert made[:5] == ["self", "config", "server_state", "app_state", "_loop"]
    assert {"transport", "cycle"} <= set(HttpToolsProtocol.__init__.__code__.co_names)
    assert {"response_started", "response_complete"} <= set(RequestResponseCycle.__init__.__code__.co_names)


def test_route_of_fastapi_names_its_query_parameters() -> None:
    app = FastAPI()

    @app.get("/x")
    def x(many: int = 1, few: str = "") -> None: ...

    route: Any = next(route for route in app.routes if getattr(route, "path", "") == "/x")
    assert [field.alias for field in route.dependant.query_params] == ["many", "few"]
