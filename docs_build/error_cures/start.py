"""Cures of errors at the start of a process: Java, ports, connections, logins, tokens and files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import REINSTALL, TOKEN

_ARTIFACTS = (
    "check the connection to Maven Central: proxy, firewall, DNS. Without internet, put the artifacts into a mirror, "
    "and let `RHEOSTAT_IVY_SETTINGS` name an Ivy settings file with its address"
)

CURES: Mapping[str, str] = MappingProxyType(
    {
        "No broker answers at BOOTSTRAP_SERVERS": (
            "check `kafka.bootstrap_servers`, DNS and firewalls, and that the brokers run. `rheostat doctor` says how "
            "far the connection came with each server; the processes of `rheostat run` wait for the brokers with "
            "`--wait-for-cluster`"
        ),
        "A bootstrap server answers, but:": (
            "the bootstrap server sends the addresses in `advertised.listeners` of the brokers; this machine must be "
            "able to resolve and reach each of them. Correct the listeners or the network; `rheostat doctor` tests each"
            " address"
        ),
        "answers, but not with the Kafka protocol": (
            "the port belongs to another service, or to a listener with TLS: correct the port, or set "
            "`kafka.security_protocol` to `SSL` or `SASL_SSL`"
        ),
        "SERVER cannot be reached": "check the host name, the port, the firewall, and that the broker runs",
        "did not accept a connection within": (
            "a firewall probably drops the packets, or the broker is overloaded: test the port from this machine with "
            "`nc -vz HOST PORT`"
        ),
        "could not prove that it knows the password": (
            "the server is not the intended one, or stores another SCRAM password: check the address, and set the "
            "password of the user again"
        ),
        "does not support kafka.sasl_mechanism": "set `kafka.sasl_mechanism` to a mechanism that the message lists",
        "on the first request, which happens if a server requires another client certificate": (
            "the broker requires a client certificate (`ssl.client.auth=required`): set `kafka.ssl_certfile` and "
            "`kafka.ssl_keyfile` to one that its truststore accepts"
        ),
        "refused the login of kafka.sasl_username": (
            "check the user name and the password (`RHEOSTAT_KAFKA__SASL_PASSWORD`), and that the user exists for this "
            "mechanism on the brokers"
        ),
        "SERVER refused the login: …": (
            "check the credentials under `kafka:` and the mechanism; the log of the broker gives the exact reason"
        ),
        "supports no login on this port": (
            "set `kafka.security_protocol` to `PLAINTEXT` or `SSL`, or use the port of the SASL listener"
        ),
        "the certificate of SERVER is not accepted": (
            "set `kafka.ssl_cafile` to the CA that signed the certificate of the broker. If the host name does not "
            "match, use a name that is in the certificate"
        ),
        "the TLS handshake with SERVER failed": "use the port of the TLS listener, or a `kafka.security_protocol` without TLS",
        "the files in kafka.ssl_cafile": (
            "the files must be PEM; the key must belong to the certificate, and its passphrase to the key"
        ),
        "holds no token: expected lines such as": f"write one line for each token: role, name, token. To get a token, {TOKEN}",
        "expected a role, a name and a token": "write each line of the tokens file as `read NAME TOKEN` or `operate NAME TOKEN`",
        "the first word is the role": "begin the line with `read` or `operate`",
        "occurs twice: create another token": f"give each name a token of its own; {TOKEN}",
        "No Java on PATH": (
            "install a Java 17 or newer, or set `JAVA_HOME`. Check with `java -version` as the user that runs rheostat"
        ),
        "No Java at …": "correct or unset `JAVA_HOME`; it names the folder that contains `bin/java`",
        "is too old, 17 or newer is needed": (
            "install Java 17 or newer; if an older Java stays installed, set `JAVA_HOME` to the folder of the new one"
        ),
        "Java at … does not run": (
            "run `java -version` as the same user: the installation is incomplete, or made for another processor"
        ),
        "is not installed in this environment": REINSTALL,
        "The JVM artifacts could not be fetched": _ARTIFACTS,
        "A fetched JVM artifact differs from the digest": (
            "the mirror or a proxy delivers another file. Compare the mirror with Maven Central; rheostat uses only "
            "files with the recorded digest"
        ),
        "remove FOLDER and try again": "the cached files are damaged: delete the folder that the message names, and start again",
        "The jar of TITLE cannot be written to FOLDER": (
            "make the folder writable for the user of rheostat, or set `RHEOSTAT_CACHE_DIR` to a folder that is"
        ),
        "The sources of TITLE cannot be compiled": (
            "install a JDK 17 or newer, not only a JRE, and let `JAVA_HOME` name it; if it still fails, report the "
            "compiler's message"
        ),
        "process cannot listen on": (
            "find the process that uses the port with `ss -ltnp`, and stop it, or set another `collector.http.port`, "
            "`stream.http.port` or `learn.http.port`"
        ),
        "The tuner cannot listen on": (
            "find the process that uses the port with `ss -ltnp`, and stop it, or set another `tuner.http.port`"
        ),
        "`rheostat learn` cannot load a library": (
            "install rheostat again with all its packages. Until then `learn.enabled: false` stops the restarts"
        ),
        "The tuner cannot start: ERROR": (
            "the message names the cause. A setting: `rheostat config check`; the cluster: `rheostat doctor`"
        ),
        "The collector cannot start: ERROR": "the message names the file or the setting: correct it, and start the collector again",
        "collector.password_file PATH: its first line": "write the password into the first line of the file",
        "collector.password_file PATH: …": "check the path and the permissions of `collector.password_file`",
        "collector.tls_ca_file PATH": (
            "set `collector.tls_ca_file` to the PEM file of the CA that signed the agents' certificates"
        ),
        "collector.tls_cert_file CERT": (
            "give a certificate and its own key as PEM files, the key without a passphrase: `openssl pkey -in KEY -out NEW`"
        ),
        "FILE: cannot be read: …": "check the path and the permissions of the tokens file",
        "is also in the settings: create another token": f"use each token once; {TOKEN}",
        "The compilation of TITLE took longer than": (
            "the machine is overloaded or very slow: end other programs, and start again"
        ),
        "The tuner does not start: ERROR; see tuner.http": (
            "correct the file that the message names: `tuner.http.tokens_file`, `tls_certfile` or `tls_keyfile`"
        ),
        "has ended because its HTTP server ended": (
            "start the process again (`rheostat run` does so by itself), and report the error that its log has above the message"
        ),
        "the second word is a name": "shorten the name in this line of the tokens file to 64 letters, without control characters",
        "the token of NAME …": f"replace the token in this line of the tokens file: {TOKEN}",
        "the certificate CERTFILE and the key KEYFILE cannot be used": (
            "set `tuner.http.tls_certfile` and `tls_keyfile` to a certificate and its own key, as PEM files that the "
            "user of rheostat can read, the key without a passphrase"
        ),
        "does not report its version": "install Java 17 or newer, or set `JAVA_HOME` to its folder; test it with `java -version`",
        "reinstall pyspark": REINSTALL,
        "reinstall rheostat": REINSTALL,
        "reinstall it": REINSTALL,
    }
)
