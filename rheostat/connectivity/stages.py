"""The stages of connecting to one server: TCP, TLS, Kafka protocol, login. Each failure names its stage and cause."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import closing
from typing import Any

from kafka import errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from rheostat.connectivity.connection import KafkaExchange, ProbeFailed, ProbeOutcome, ProbeResult, set_deadline
from streaming.shared import kafka_names
from streaming.shared.kafka import KafkaSettings
from streaming.shared.kafka.secrets import LoginError
from streaming.shared.kafka.settings import PemError

_WITH_TLS = ("SSL", "SASL_SSL")


def probe_server(kafka: KafkaSettings, server: str, connect_s_max: float, answer_s_max: float) -> ProbeResult:
    """Probes one server. A failed stage is part of the result and is never raised.

    Args:
        connect_s_max: the longest wait for the TCP connection.
        answer_s_max: the longest wait for all later stages together.
    """
    began_s = time.monotonic()
    try:
        # The login is checked before the connection, because a slow token endpoint must not look like a slow broker.
        kafka.check_login()
        with closing(_connect(server, connect_s_max)) as plain:
            until_s = time.monotonic() + answer_s_max
            with closing(_start_tls(plain, kafka, server, until_s)) as sock:
                _open_session(KafkaExchange(sock, until_s, server), kafka)
        outcome, text = ProbeOutcome.OPEN, f"{server} answers"
    except ProbeFailed as failure:
        outcome, text = failure.outcome, str(failure)
        # A TLS listener answers a client without TLS with bytes that are not Kafka's, so a further connection tells the two apart.
        without_tls = kafka.security_protocol not in _WITH_TLS
        if outcome is ProbeOutcome.NOT_KAFKA and without_tls and _uses_tls(server, connect_s_max):
            outcome = ProbeOutcome.TLS
            text = f"{server} requires TLS on this port, and kafka.security_protocol {kafka.security_protocol} has none"
    except LoginError as error:
        outcome, text = ProbeOutcome.NO_CREDENTIALS, str(error)
    except TimeoutError:
        outcome = ProbeOutcome.SLOW
        text = f"{server} accepted the connection, and did not answer within {answer_s_max:.0f} s"
    return ProbeResult(server, outcome, text, time.monotonic() - began_s)


def _connect(server: str, connect_s_max: float) -> socket.socket:
    host, _, port = server.rpartition(":")
    try:
        return socket.create_connection((host.strip("[]"), int(port)), timeout=connect_s_max)
    except TimeoutError as error:
        raise ProbeFailed(
            ProbeOutcome.NO_ROUTE, f"{server} did not accept a connection within {connect_s_max:.0f} s"
        ) from error
    except OSError as error:
        raise ProbeFailed(ProbeOutcome.NO_ROUTE, f"{server} cannot be reached: {error.strerror or error}") from error


def _start_tls(plain: socket.socket, kafka: KafkaSettings, server: str, until_s: float) -> socket.socket:
    """Returns the TLS socket, or ``plain`` if the settings use no TLS."""
    if kafka.security_protocol not in _WITH_TLS:
        return plain
    set_deadline(plain, until_s)
    try:
        kafka.check_files()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if kafka.ssl_cafile is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(kafka.ssl_cafile)
        if kafka.ssl_certfile is not None:
            context.load_cert_chain(kafka.ssl_certfile, kafka.ssl_keyfile)
    except PemError as error:
        raise ProbeFailed(ProbeOutcome.TLS, str(error)) from error
    except (OSError, ValueError) as error:
        raise ProbeFailed(
            ProbeOutcome.TLS, f"the files in kafka.ssl_cafile, ssl_certfile, ssl_keyfile cannot be used: {error}"
        ) from error
    host = server.rpartition(":")[0].strip("[]")
    try:
        return context.wrap_socket(plain, server_hostname=host.rstrip("."))
    except ssl.SSLCertVerificationError as error:
        raise ProbeFailed(
            ProbeOutcome.TLS, f"the certificate of {server} is not accepted: {error.verify_message}"
        ) from error
    except (ssl.SSLError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise ProbeFailed(
            ProbeOutcome.TLS,
            f"the TLS handshake with {server} failed ({reason}): the server has no TLS on this port, or no TLS version that "
            "rheostat supports",
        ) from error


def _uses_tls(server: str, connect_s_max: float) -> bool:
    """Connects once more, and returns whether a TLS handshake succeeds with any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with closing(_connect(server, connect_s_max)) as plain, closing(context.wrap_socket(plain)):
            return True
    except (ProbeFailed, OSError):
        return False


def _open_session(exchange: KafkaExchange, kafka: KafkaSettings) -> None:
    """Exchanges the API versions, logs in if the settings have a login, and sends a first metadata request."""
    # Every broker supports version 0 of this request; its response lists the supported versions of every request.
    versions = exchange.request(
        ApiVersionsRequest(version=0), ProbeOutcome.NOT_KAFKA, "closed the connection on the first Kafka request"
    )
    exchange.versions = BrokerVersionData(
        api_versions={k.api_key: (k.min_version, k.max_version) for k in versions.api_keys}
    )
    if kafka.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        _log_in(exchange, kafka)
        refusal = "accepted the login, and closed the connection on the next request"
    else:
        refusal = (
            "closed the connection on the first request, which happens if a listener requires a login, and "
            f"kafka.security_protocol {kafka.security_protocol} has none"
        )
    exchange.request(MetadataRequest(topics=[], allow_auto_topic_creation=False), ProbeOutcome.LOGIN, refusal)


def _log_in(exchange: KafkaExchange, kafka: KafkaSettings) -> None:
    """Logs in with SASL: a handshake on the mechanism, then the mechanism's own exchange."""
    mechanism = kafka.sasl_mechanism
    assert mechanism is not None
    closed_text = "closed the connection during the login"
    handshake = exchange.request(
        SaslHandshakeRequest(mechanism=mechanism, max_version=1), ProbeOutcome.LOGIN, closed_text
    )
    if handshake.error_code == errors.IllegalSaslStateError.errno:
        raise ProbeFailed(
            ProbeOutcome.LOGIN,
            f"{exchange.server} supports no login on this port, and kafka.security_protocol is {kafka.security_protocol}",
        )
    if handshake.error_code != kafka_names.ERROR_NONE:
        raise ProbeFailed(
            ProbeOutcome.LOGIN,
            f"{exchange.server} does not support kafka.sasl_mechanism {mechanism}; it offers {', '.join(handshake.mechanisms)}",
        )
    host = exchange.server.rpartition(":")[0]
    login = get_sasl_mechanism(mechanism)(host=host, **kafka.kafka_python_arguments())
    while not login.is_done():
        response = exchange.request(SaslAuthenticateRequest(login.auth_bytes()), ProbeOutcome.LOGIN, closed_text)
        if response.error_code != kafka_names.ERROR_NONE:
            raise ProbeFailed(ProbeOutcome.LOGIN, f"{exchange.server} refused the login: {_error_text(response)}")
        try:
            login.receive(response.auth_bytes)
        except (errors.KafkaError, ValueError, KeyError) as error:
            raise ProbeFailed(
                ProbeOutcome.LOGIN, f"{exchange.server} could not prove that it knows the password: {error}"
            ) from error
    if not login.is_authenticated():
        raise ProbeFailed(
            ProbeOutcome.LOGIN, f"{exchange.server} refused the login of kafka.sasl_username {kafka.sasl_username}"
        )


def _error_text(response: Any) -> str:
    name = errors.for_code(response.error_code).__name__
    return f"{name}: {response.error_message}" if response.error_message else name
