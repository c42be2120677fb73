"""What `python -m services.apiserver --help` prints: every variable that is read, with what it sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from services.apiserver.settings import PREFIX, SHARED, VARIABLES

_ABOUT: Final = """usage: python -m services.apiserver

Runs one API server until it is interrupted. Settings come from the environment:
"""
_MEANING: Final = {
    "ADMIN_TOKEN": "a bearer token that is let in as admin",
    "ADMISSION": "0: no defaults and rules of Karmada's kinds, no protection from deletion (1)",
    "AGGREGATE": "group/version=https://host:port of aggregated servers, separated by commas",
    "AUDIT_LOG": "the file that gets one JSON line for each write and each kind of refusal",
    "AUTHORIZATION": "who may do what: AlwaysAllow, MastersOnly, RBAC, or Node,RBAC (AlwaysAllow)",
    "BOOTSTRAP_TOKENS": "0: no bootstrap tokens and no cluster-info (1)",
    "CONTROLLERS": "0: no namespace lifecycle, garbage collection and token controllers (1)",
    "DATA_DIR": "the directory of certificates and keys (.fleetlog/apiserver)",
    "DROP_UNREADABLE": "1: start without Secrets whose key is lost (0)",
    "EVENT_TTL": "seconds for which Events are kept (3600)",
    "GUARD_SECONDS": "seconds for which the radius of a guarded edit may be computed (10)",
    "HOST": "the address to listen at (127.0.0.1)",
    "KUBECONFIG": "where a kubeconfig for admin is written",
    "OIDC_CA_FILE": "the authority of the provider's certificate",
    "OIDC_CLIENT_ID": "the audience that tokens of the provider must have",
    "OIDC_GROUPS_CLAIM": "the claim with the groups of a user",
    "OIDC_GROUPS_PREFIX": "what goes before each of these groups",
    "OIDC_ISSUER_URL": "the OpenID Connect provider whose users are let in",
    "OIDC_REQUIRED_CLAIM": "claim=value that tokens must have, separated by commas",
    "OIDC_SIGNING_ALGS": "how tokens may be signed, separated by commas (RS256)",
    "OIDC_USERNAME_CLAIM": "the claim with the name of a user (sub)",
    "OIDC_USERNAME_PREFIX": "what goes before the name; -: nothing (the issuer and #)",
    "PORT": "the port to listen at, 0 for a free one (6443)",
    "PREFIX": "the first token of the subjects of objects (obj)",
    "PUBLIC_URL": "where members reach this server",
    "QUEUE": "requests of one user that may wait for a seat; more are answered 429 (100)",
    "QUEUE_SECONDS": "seconds for which they wait (15)",
    "REPLICAS": "replicas of the stream of objects (1)",
    "REQUEST_SECONDS": "the time limit of requests, watches left out (34)",
    "SEATS": "requests that are worked on at a time, by levels of users (600)",
    "SERVICE_CIDR": "the range of cluster IPs (10.96.0.0/16)",
    "SERVICE_ROLES": "1: write the roles of Fleetlog's services, where roles decide (0)",
    "STREAM": "the stream of objects (OBJECTS)",
    "TLS": "0: plain HTTP (1)",
    "TLS_NAMES": "further names of the server's certificate, separated by commas",
    "TOKEN_FILE": 'static tokens: lines of token,user,uid,"group,group"',
    "TRACK_FIELDS": "0: no managedFields until an object is first applied (1)",
    "VERSION": "the version at /version",
    "WATCHES": "open watches of one user (10000)",
}
_OTHERS: Final = {
    "FLEETLOG_NATS_URL": "the log's server, which keeps the objects; without it they are kept in memory",
    "FLEETLOG_NATS_CREDS": "the file with the identity for the log's server",
    "FLEETLOG_NATS_USER": "the user for the log's server",
    "FLEETLOG_NATS_PASSWORD_FILE": "the file with the password of this user",
    "FLEETLOG_TLS_CA": "the authority of the certificate of the log's server",
    "FLEETLOG_SECRETS_KEY_FILE": "the file with the keys that Secrets are encrypted with",
    "FLEETLOG_LOG_LEVEL": "debug, info, warning or error (info)",
}


def usage() -> str:
    """The text of the help."""
    lines = [_line(name, _MEANING.get(name.removeprefix(PREFIX), "")) for name in sorted(VARIABLES)]
    lines += [_line(name, "") for name in sorted(SHARED)]
    lines += [_line(name, text) for name, text in _OTHERS.items()]
    return "\n".join([_ABOUT, *lines, ""])


def _line(name: str, text: str) -> str:
    return f"  {name:42}{text}".rstrip()


def refusal(arguments: Iterable[str]) -> str:
    """Why these arguments cannot be used; empty where there are none."""
    given = " ".join(arguments)
    return f"apiserver: it takes no arguments, not {given!r}; --help shows the variables that it reads" if given else ""
