"""Cures of errors at the start of a process: Java, ports, connections, logins, tokens and files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from docs_build.error_cures.phrases import REINSTALL, TOKEN

_ARTIFACTS = (
    "check the connection to Maven Central: proxy, firewall, DNS. Without internet, put the artifacts into a mirror, "
    "and let `RHEOSTAT_IVY_SETTINGS` name an Ivy settings file with the address of the mirror"
)

CURES: Mapping[str, str] = MappingProxyType(
    {
        "No broker answers at BOOTSTRAP_SERVERS": (
            "check `kafka.bootstrap_servers`, DNS and firewalls, and that the brokers run. `rheostat doctor` shows for each server "
            "which step of the connection fails. With `--wait-for-cluster` a process waits until the brokers answer"
        ),
        "A bootstrap server answers, but:": (
            "correct `advertised.listeners` of the brokers, or DNS and firewalls. Clients connect to the addresses in "
            "`advertised.listeners`, so this machine must resolve and reach each of them; `rheostat doctor` tests each address"
        ),
        "answers, but not with the Kafka protocol": (
            "correct the port, or, if the broker has a TLS listener on this port, set "
            "`kafka.security_protocol` to `SSL` or `SASL_SSL`"
        ),
        "SERVER cannot be reached": "check the host name, the port, the firewall, and that the broker runs",
        "did not accept a connection within": (
            "a firewall probably drops the packets, or the broker is overloaded: test the port from this machine with "
            "`nc -vz HOST PORT`"
        ),
        "could not prove that it knows the password": (
            "check the address, and set the SCRAM password of the user again: the server is not the intended broker, or it stores "
            "another password"
        ),
        "does not support kafka.sasl_mechanism": "set `kafka.sasl_mechanism` to a mechanism that the message lists",
        "on the first request, which happens if a server requires another client certificate": (
            "set `kafka.ssl_certfile` and `kafka.ssl_keyfile` to a certificate that the truststore of the broker accepts: the "
            "broker "
            "probably has `ssl.client.auth=required`"
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
            "match, put a name from the certificate into `kafka.bootstrap_servers`"
        ),
        "the TLS handshake with SERVER failed": "use the port of the TLS listener, or a `kafka.security_protocol` without TLS",
        "the files in kafka.ssl_cafile": (
            "let these settings name PEM files. The key in `ssl_keyfile` must belong to the certificate in `ssl_certfile`, and "
            "must have no passphrase"
        ),
        "holds no token: expected lines such as": (
            f"write a line for each user into the tokens file: a role, a name and a token. To get a token, {TOKEN}"
        ),
        "expected a role, a name and a token": "write each line of the tokens file as `read NAME TOKEN` or `operate NAME TOKEN`",
        "the first word must be the role": "begin the line with `read` or `operate`",
        "occurs twice: create another token": f"give each name a token of its own; {TOKEN}",
        "No Java on PATH": (
            "install a Java 17 or newer, or set `JAVA_HOME`. Check with `java -version` as the user that runs rheostat"
        ),
        "No Java at …": "set `JAVA_HOME` to a folder that contains `bin/java`, or unset it to use the Java on `PATH`",
        "is too old, 17 or newer is needed": (
            "install Java 17 or newer. If an older Java stays installed, set `JAVA_HOME` to the folder of the new Java"
        ),
        "Java at … does not run": (
            "install Java again: this installation is incomplete, or it is for another kind of processor. `java -version` "
            "shows the error"
        ),
        "is not installed in this environment": REINSTALL,
        "The JVM artifacts could not be fetched": _ARTIFACTS,
        "A fetched JVM artifact differs from the digest": (
            "compare the file on the mirror with the file on Maven Central: the mirror or a proxy delivers a different file, and "
            "rheostat uses only files whose SHA-256 digest it knows"
        ),
        "remove FOLDER and try again": (
            "delete the folder in the message, and start again: files in this cache are damaged or missing"
        ),
        "The jar of PROGRAM cannot be written to FOLDER": (
            "make the folder writable for the user of rheostat, or set `RHEOSTAT_CACHE_DIR` to a writable folder"
        ),
        "The sources of PROGRAM cannot be compiled": (
            "install rheostat again, so that its Java sources and libraries belong to the same version. If the compilation still "
            "fails, report the message of the compiler"
        ),
        "process cannot listen on": (
            "stop the process that uses the port (`ss -ltnp` shows it), or set `http.port` in the section that the message "
            "names to "
            "another port"
        ),
        "The tuner cannot listen on": (
            "stop the process that uses the port (`ss -ltnp` shows it), or set `tuner.http.port` to another port"
        ),
        "`rheostat learn` cannot load a library": (
            "install rheostat again with all its packages. Until then, set `learn.enabled: false`, so that `rheostat run` does "
            "not start "
            "learn again and again"
        ),
        "The tuner cannot start: ERROR": (
            "correct the cause in the message. `rheostat config check` shows faults of the settings file, and `rheostat "
            "doctor` shows "
            "faults of the connection and missing rights"
        ),
        "The collector cannot start: ERROR": "the message names the file or the setting: correct it, and start the collector again",
        "collector.password_file PATH: its first line": "write the password into the first line of the file",
        "collector.password_file PATH: …": "check the path and the permissions of `collector.password_file`",
        "collector.tls_ca_file PATH": (
            "set `collector.tls_ca_file` to the PEM file of the CA that signed the agents' certificates"
        ),
        "collector.tls_cert_file CERT": (
            "set `collector.tls_cert_file` and `tls_key_file` to a certificate and its own key, as PEM files. "
            "`openssl pkey -in KEY -out NEW` removes the passphrase of a key"
        ),
        "FILE: cannot be read: …": "check the path and the permissions of the tokens file",
        "is also in the settings: create another token": f"use each token once; {TOKEN}",
        "The compilation of PROGRAM took longer than": (
            "end other programs, and start again: the compilation normally takes a few seconds"
        ),
        "The tuner does not start: ERROR; see tuner.http": (
            "correct the file that the message names: `tuner.http.tokens_file`, `tls_certfile` or `tls_keyfile`"
        ),
        "has ended because its HTTP server ended": (
            "start the process again, unless `rheostat run` has started it: then `rheostat run` restarts it. Report the error that "
            "stands above this message in the log"
        ),
        "the second word must be a name": (
            "shorten the name in this line of the tokens file to 64 letters, without control characters"
        ),
        "the token of NAME …": f"replace the token in this line of the tokens file: {TOKEN}",
        "the certificate CERTFILE and the key KEYFILE cannot be used": (
            "set `tuner.http.tls_certfile` and `tls_keyfile` to a certificate and its own key, as PEM files that the "
            "user of rheostat can read, the key without a passphrase"
        ),
        "does not report its version": "install Java 17 or newer, or set `JAVA_HOME` to its folder; test it with `java -version`",
        "reinstall pyspark": REINSTALL,
        "reinstall rheostat": REINSTALL,
        "reinstall it": REINSTALL,
        "--kafka: expected one of …, found VERSION": (
            "give `--kafka` one of the versions in the message, or leave the option out"
        ),
        "are the same Kafka cluster, with the id": (
            "remove one of the two names from `clusters`, or correct its `kafka.bootstrap_servers`: both point to the same cluster"
        ),
        "The metrics cluster CLUSTER, which has all signals, does not answer": (
            "check with `rheostat doctor` that the brokers of this cluster run and can be reached. The other clusters cannot "
            "be tuned without this cluster, because the signals of all clusters are stored there"
        ),
        "tuner.http.oidc needs further libraries": (
            "install rheostat with its extra `oidc`, as [Install](../how-to/install.md) says, or remove the section "
            "`tuner.http.oidc`"
        ),
    }
)
