"""The way into a cluster through one server, stage by stage, and what it means that a stage fails."""

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

_WITH_TLS = ("SSL", "SASL_SSL")


def probe_server(kafka: KafkaSettings, server: str, connect_s_max: float, answer_s_max: float) -> ProbeResult:
    """Tries one server to its end. Errors on the way are what it found, never raised."""
    began = time.monotonic()
    try:
        with closing(_connected(server, connect_s_max)) as plain:
            until_s = time.monotonic() + answer_s_max
            with closing(_behind_tls(plain, kafka, server, until_s)) as sock:
                _let_in(KafkaExchange(sock, until_s, server), kafka)
        way, said = ProbeOutcome.OPEN, f"{server} answers"
    except ProbeFailed as ended:
        way, said = ended.way, str(ended)
        if (
            way is ProbeOutcome.NOT_KAFKA
            and kafka.security_protocol not in _WITH_TLS
            and _speaks_tls(server, connect_s_max)
        ):
            way = ProbeOutcome.TLS
            said = f"{server} speaks TLS on this port, and kafka.security_protocol {kafka.security_protocol} has none"
    except TimeoutError:
        way, said = ProbeOutcome.SLOW, f"{server} took the connection, and did not answer within {answer_s_max:.0f} s"
    return ProbeResult(server, way, said, time.monotonic() - began)


def _connected(server: str, connect_s_max: float) -> socket.socket:
    host, _, port = server.rpartition(":")
    try:
        return socket.create_connection((host.strip("[]"), int(port)), timeout=connect_s_max)
    except TimeoutError as error:
        raise ProbeFailed(
            ProbeOutcome.NO_ROUTE, f"{server} did not take a connection within {connect_s_max:.0f} s"
        ) from error
    except OSError as error:
        raise ProbeFailed(ProbeOutcome.NO_ROUTE, f"{server} cannot be reached: {error.strerror or error}") from error


def _behind_tls(plain: socket.socket, kafka: KafkaSettings, server: str, until_s: float) -> socket.socket:
    if kafka.security_protocol not in _WITH_TLS:
        return plain
    set_deadline(plain, until_s)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if kafka.ssl_cafile is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(kafka.ssl_cafile)
        if kafka.ssl_certfile is not None:
            context.load_cert_chain(kafka.ssl_certfile, kafka.ssl_keyfile)
    except (OSError, ValueError) as error:
        raise ProbeFailed(
            ProbeOutcome.TLS, f"the files of kafka.ssl_cafile, ssl_certfile, ssl_keyfile cannot be used: {error}"
        ) from error
    host = server.rpartition(":")[0].strip("[]")
    try:
        return context.wrap_socket(plain, server_hostname=host.rstrip("."))
    except ssl.SSLCertVerificationError as error:
        raise ProbeFailed(
            ProbeOutcome.TLS, f"{server} shows a certificate we do not accept: {error.verify_message}"
        ) from error
    except TimeoutError:
        raise
    except (ssl.SSLError, ConnectionError) as error:
        why = getattr(error, "reason", None) or error.strerror or str(error)
        raise ProbeFailed(
            ProbeOutcome.TLS,
            f"{server} does not speak TLS with us ({why}): it has no TLS on this port, or none of our versions",
        ) from error


def _speaks_tls(server: str, connect_s_max: float) -> bool:
    """Asked once more, by who does not mind what certificate is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with closing(_connected(server, connect_s_max)) as plain, closing(context.wrap_socket(plain)):
            return True
    except (ProbeFailed, OSError):
        return False


def _let_in(talk: KafkaExchange, kafka: KafkaSettings) -> None:
    # The oldest version, which every broker understands; what else it understands is in the answer.
    versions = talk.ask(
        ApiVersionsRequest(version=0), ProbeOutcome.NOT_KAFKA, "closed the connection on Kafka's first words"
    )
    talk.knows = BrokerVersionData(api_versions={k.api_key: (k.min_version, k.max_version) for k in versions.api_keys})
    if kafka.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        _log_in(talk, kafka)
        refusal = "took the login, and closed the connection on the first question"
    else:
        refusal = (
            "closed the connection on the first question, as a listener does that wants a login, and "
            f"kafka.security_protocol {kafka.security_protocol} has none"
        )
    talk.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), ProbeOutcome.LOGIN, refusal)


def _log_in(talk: KafkaExchange, kafka: KafkaSettings) -> None:
    mechanism = kafka.sasl_mechanism
    assert mechanism is not None
    closed = "closed the connection during the login"
    hello = talk.ask(SaslHandshakeRequest(mechanism=mechanism, max_version=1), ProbeOutcome.LOGIN, closed)
    if hello.error_code == errors.IllegalSaslStateError.errno:
        raise ProbeFailed(
            ProbeOutcome.LOGIN,
            f"{talk.server} takes no login on this port, and kafka.security_protocol is {kafka.security_protocol}",
        )
    if hello.error_code != kafka_names.ERROR_NONE:
        raise ProbeFailed(
            ProbeOutcome.LOGIN,
            f"{talk.server} does not know kafka.sasl_mechanism {mechanism}; it offers {', '.join(hello.mechanisms)}",
        )
    host = talk.server.rpartition(":")[0]
    login = get_sasl_mechanism(mechanism)(host=host, **kafka.for_python())
    while not login.is_done():
        answer = talk.ask(SaslAuthenticateRequest(login.auth_bytes()), ProbeOutcome.LOGIN, closed)
        if answer.error_code != kafka_names.ERROR_NONE:
            raise ProbeFailed(ProbeOutcome.LOGIN, f"{talk.server} refused the login: {_why(answer)}")
        try:
            login.receive(answer.auth_bytes)
        except (errors.KafkaError, ValueError, KeyError) as error:
            raise ProbeFailed(
                ProbeOutcome.LOGIN, f"{talk.server} could not prove that it knows our password: {error}"
            ) from error
    if not login.is_authenticated():
        raise ProbeFailed(
            ProbeOutcome.LOGIN, f"{talk.server} refused the login of kafka.sasl_username {kafka.sasl_username}"
        )


def _why(answer: Any) -> str:
    name = errors.for_code(answer.error_code).__name__
    return f"{name}: {answer.error_message}" if answer.error_message else name
