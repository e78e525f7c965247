"""Cures of errors of logins to Kafka with OAuth, Kerberos or a secret in a file.

The processes of `rheostat run` log in again by themselves, so the operator need not restart them after such an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_PAGE = "[Log in with OAuth, MSK IAM or Kerberos](../how-to/log-in-with-oauth.md)"
_ENDPOINT_URL = (
    "correct the path of `kafka.sasl_oauth_token_endpoint`: another page of the server has answered. The identity provider's "
    "documentation gives the address of its token endpoint"
)
_RETRY = "Running processes try again by themselves"

CURES: Mapping[str, str] = MappingProxyType(
    {
        "needs the Python package gssapi": (
            f"install the operating system's package `libgssapi-krb5-2`, and rheostat with its extra `kerberos`; see {_PAGE}"
        ),
        "kafka.sasl_mechanism GSSAPI: LOGIN failed": (
            "the text after the colon comes from the Kerberos library. Check the principal and the keytab with "
            "`kinit -kt KEYTAB PRINCIPAL`; check also `/etc/krb5.conf`, the KDC and this machine's clock"
        ),
        "kafka.sasl_oauth_cafile: FILE cannot be used": (
            "set `kafka.sasl_oauth_cafile` to a PEM file that the user of rheostat can read, or remove it to trust the authorities "
            "of the operating system"
        ),
        "KEY: VALUE answers with the status": (
            "for `invalid_client` or status 401, correct the client id and the secret; for `invalid_scope`, correct "
            f"`kafka.sasl_oauth_scope`; for a status 5xx, repair the identity provider. {_RETRY}"
        ),
        "KEY: VALUE answers without an access_token": _ENDPOINT_URL,
        "KEY: VALUE does not answer with a JSON object": _ENDPOINT_URL,
        "KEY: VALUE does not answer with JSON": _ENDPOINT_URL,
        "KEY: VALUE does not answer as an HTTP server": (
            "correct the port or the scheme (`https://`) of `kafka.sasl_oauth_token_endpoint`: another service listens there"
        ),
        "KEY: VALUE cannot be reached: …": (
            f"check the host name and the port of the token endpoint, DNS, and the firewall between this machine and the "
            f"endpoint. {_RETRY}"
        ),
        "KEY: VALUE did not answer within": (
            f"check that the identity provider runs, and that no firewall drops packets to it. {_RETRY}"
        ),
        "KEY: VALUE did not give a token within": (
            f"check the server or the function from which the token comes: it has not answered in time. {_RETRY}"
        ),
        "its certificate is not accepted (…): see kafka.sasl_oauth_cafile": (
            "set `kafka.sasl_oauth_cafile` to the PEM file of the authority that signed the certificate of the token endpoint"
        ),
        "KEY: VALUE cannot be imported": (
            "write `kafka.sasl_oauth_token_provider` as `package.module:function`, and set `PYTHONPATH` to the folder that "
            "contains "
            "the module"
        ),
        "KEY: VALUE is not a function": (
            "let `kafka.sasl_oauth_token_provider` name a function (`MODULE:FUNCTION`), not another object of the module"
        ),
        "KEY: VALUE must return a token, or a pair": (
            "change the function: it returns a text (the token), or a tuple of the token and the time at which it expires, in ms "
            "since 1970"
        ),
        "KEY: VALUE raised …: …": (
            "correct the function that `kafka.sasl_oauth_token_provider` names, or its credentials: the message ends with the "
            "function's own error"
        ),
        "gives a token that does not say when it expires": (
            "let the provider issue a JSON Web Token with the claim `exp`, or let the endpoint answer with `expires_in`; a "
            "function "
            "may return the time with the token"
        ),
        "gives a token that expired NUMBER s ago": (
            "if the token comes from a file, start the program that renews the token in it. If the token is new, correct this "
            "machine's clock: it is ahead of the clock of the identity provider"
        ),
        "gives no token: a token has only letters": (
            "look at the text that the file, the endpoint or the function returns: it is no bearer token, but for example an "
            "error page"
        ),
        "must have one line, the secret, and has": (
            "write the secret into the first line of the file, and remove all other lines"
        ),
    }
)
