"""A token server for tests: real HTTP or HTTPS, and JSON Web Tokens with real RS256 signatures."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER, AUDIENCE, CLIENT, SECRET = "https://issuer.test", "kafka", "rheostat", "a client's secret: ü&="
ELSEWHERE = "/elsewhere"


class SigningKey:
    """A private key with its key id, and its public half as a JSON Web Key."""

    def __init__(self, kid: str, algorithm: str = "RS256") -> None:
        self.kid, self.algorithm = kid, algorithm
        self.private: Any = (
            rsa.generate_private_key(65537, 2048) if algorithm == "RS256" else ec.generate_private_key(ec.SECP256R1())
        )

    def jwk(self) -> dict[str, Any]:
        kind = jwt.algorithms.RSAAlgorithm if self.algorithm == "RS256" else jwt.algorithms.ECAlgorithm
        key = kind.to_jwk(self.private.public_key(), as_dict=True)
        return {**key, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    def token(self, subject: str = CLIENT, lifetime_s: float = 60.0, **claims: Any) -> str:
        now_s = time.time()
        body = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now_s, "exp": now_s + lifetime_s, **claims}
        return jwt.encode(
            {name: value for name, value in body.items() if value is not None}, self.private, self.algorithm,
            headers={"kid": self.kid},
        )  # fmt: skip


def jwks(*keys: SigningKey) -> str:
    return json.dumps({"keys": [key.jwk() for key in keys]})


class TokenServer:
    """Answers ``POST /token`` with tokens and ``GET /jwks`` with keys.

    Attributes:
        mode: "ok", "500", "hang", "drip", "garbage", "deep", "empty", "huge expiry", "expired", "drop" or "redirect"; and "500 stalls",
            "500 drips" and "500 resets" for an error whose body never comes as a whole.
        issued: the number of tokens given out.
        asked: the number of requests.
    """

    def __init__(self, key: SigningKey | None = None, lifetime_s: float = 60.0) -> None:
        self.key = key or SigningKey("one")
        self.keys: tuple[SigningKey, ...] = (self.key,)
        self.lifetime_s = lifetime_s
        self.mode = "ok"
        self.issued = 0
        self.asked = 0
        self.scopes: list[str | None] = []
        self.url = ""
        self._released = threading.Event()

    @contextmanager
    def serving(self, certificate: Path | None = None) -> Iterator[TokenServer]:
        """Args:
        certificate: PEM file with key and certificate; None: plain HTTP.
        """
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                if outer.mode == "redirect" and self.path != ELSEWHERE:
                    outer._redirect(self)
                else:
                    outer._answer(self, jwks(*outer.keys).encode())

            def do_POST(self) -> None:
                outer.asked += 1
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                outer._post(self, urllib.parse.parse_qs(body))

            def log_message(self, *args: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            server.block_on_close = False
            scheme = "http"
            if certificate is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificate)
                server.socket = context.wrap_socket(server.socket, server_side=True)
                scheme = "https"
            self.url = f"{scheme}://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                self._released.set()
                server.shutdown()
                thread.join(timeout=10)

    def _post(self, request: BaseHTTPRequestHandler, form: dict[str, list[str]]) -> None:
        login = base64.b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode()
        user, _, password = login.partition(":")
        if [urllib.parse.unquote_plus(user), urllib.parse.unquote_plus(password)] != [CLIENT, SECRET]:
            self._answer(request, b'{"error": "invalid_client"}', 401)
        elif form.get("grant_type") != ["client_credentials"]:
            self._answer(request, b'{"error": "unsupported_grant_type"}', 400)
        elif self.mode == "500":
            self._answer(request, b"<html>a page", 500)
        elif self.mode == "hang":
            self._released.wait(60)
        elif self.mode in ("drip", "500 drips"):
            request.send_response(200 if self.mode == "drip" else 500)
            request.end_headers()
            while not self._released.wait(0.05):
                request.wfile.write(b" ")
        elif self.mode in ("500 stalls", "500 resets"):
            request.send_response(500)
            request.send_header("content-length", "1000")
            request.end_headers()
            request.wfile.write(b"{")
            if self.mode == "500 stalls":
                self._released.wait(60)
            else:
                request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                request.connection.close()
        elif self.mode == "drop":
            request.connection.close()
        elif self.mode == "garbage":
            self._answer(request, b"<html>a page")
        elif self.mode == "deep":
            self._answer(request, b"[" * 100_000)
        elif self.mode == "huge expiry":
            self._answer(request, json.dumps({"access_token": "opaque", "expires_in": 10**400}).encode())
        elif self.mode == "empty":
            self._answer(request, b"{}")
        elif self.mode == "redirect":
            self._redirect(request)
        else:
            self.scopes.append(form.get("scope", [None])[0])  # type: ignore[list-item]
            lifetime_s = -30.0 if self.mode == "expired" else self.lifetime_s
            token = self.key.token(lifetime_s=lifetime_s)
            self.issued += 1
            body = {"access_token": token, "token_type": "Bearer", "expires_in": round(lifetime_s)}
            self._answer(request, json.dumps(body).encode())

    def _redirect(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("location", f"{self.url}{ELSEWHERE}")
        request.end_headers()

    @staticmethod
    def _answer(request: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
        request.send_response(status)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
