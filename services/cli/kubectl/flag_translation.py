"""Takes our own flags out of a command line of kubectl: which cluster it is for; every other word stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed
from services.cli.kubectl.verbs import CONTROL, CONTROL_ONLY, MEMBERS, SCOPES, VERBS, Verb

_OWN: Final = {
    "--operation-scope": "scope",
    "--cluster": "cluster",
    "--clusters": "cluster",
    "--kubeconfig": "kubeconfig",
    "--karmada-context": "context",
    "--context": "context",
}
_OWN_SHORT: Final = {"s": "scope", "C": "cluster"}


class Line(NamedTuple):
    """A command line for kubectl: the cluster it is for (empty: the control plane), and what kubectl gets."""

    words: tuple[str, ...]
    target: ControlPlaneOptions
    cluster: str = ""
    help: bool = False


def translate(name: str, words: Sequence[str], before: ControlPlaneOptions) -> Line:
    """The command line for kubectl; `before` are the options before the command's name. Raises Failed."""
    verb = VERBS[name]
    own: dict[str, str] = {}
    kept: list[str] = []
    asked = _walk(iter(words), verb, own, kept)
    cluster = "" if asked else _cluster_of(name, verb, own.get("scope"), own.get("cluster"))
    target = ControlPlaneOptions(own.get("kubeconfig") or before.kubeconfig, own.get("context") or before.context)
    return Line(tuple(kept), target, cluster, asked)


def sorted_out(name: str, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Our own flags of an unfinished command line, and the words that kubectl gets."""
    own: dict[str, str] = {}
    kept: list[str] = []
    with suppress(Failed):
        _walk(iter(words), VERBS[name], own, kept)
    return own, kept


def _walk(words: Iterator[str], verb: Verb, own: dict[str, str], kept: list[str]) -> bool:
    """Sort words into our own and those of kubectl, as kubectl reads them; whether help was asked for."""
    asked = False
    for word in words:
        if word == "--":
            kept += [word, *words]
        elif word.startswith("--"):
            flag, equals, value = word.partition("=")
            if flag in _OWN:
                own[_OWN[flag]] = value if equals else _value(flag, words)
            elif flag == "--help":
                asked = True
            else:
                kept.append(word)
        elif word.startswith("-") and len(word) > 1:
            asked = _shorthands(word, words, verb, own, kept) or asked
        else:
            kept.append(word)
    return asked


def _shorthands(word: str, words: Iterator[str], verb: Verb, own: dict[str, str], kept: list[str]) -> bool:
    """One word of shorthands: switches may be joined, the first that takes a value ends it; whether help is among."""
    switches = "-"
    asked = False
    for index, letter in enumerate(word[1:], 2):
        rest = word[index:].removeprefix("=")
        if letter in _OWN_SHORT:
            own[_OWN_SHORT[letter]] = rest or _value(f"-{letter}", words)
            break
        if letter == "h":
            asked = True
        elif letter in verb.switches:
            switches += letter
        else:
            switches += letter + word[index:]
            kept.append(switches)
            if not word[index:]:
                kept += [value for value in (next(words, None),) if value is not None]
            return asked
    if switches != "-":
        kept.append(switches)
    return asked


def _value(flag: str, words: Iterator[str]) -> str:
    value = next(words, None)
    if value is None:
        raise Failed(f"flag needs an argument: {flag}")
    return value


def _cluster_of(name: str, verb: Verb, scope: str | None, cluster: str | None) -> str:
    """The member that a line is for, empty for the control plane; raises Failed for what the command does not do."""
    flag = "-C" if verb.short_cluster else "--cluster"
    if verb.scopes == CONTROL_ONLY:
        if cluster is not None or scope not in (None, CONTROL):
            raise Failed(
                f"karmadactl {name} works in the control plane only: policies bring its objects to members; "
                "drop --operation-scope and --cluster"
            )
        return ""
    if scope is not None and scope not in SCOPES:
        raise Failed(f"unsupported operation scope {scope!r}; use {' or '.join(verb.scopes)}")
    if scope is not None and scope not in verb.scopes:
        raise Failed(f"karmadactl {name} does not support operation scope {scope!r}; use {' or '.join(verb.scopes)}")
    wanted = scope or (MEMBERS if cluster or CONTROL not in verb.scopes else CONTROL)
    if wanted == CONTROL:
        return ""
    if not cluster:
        raise Failed(f"say which member cluster: {flag} NAME; `karmadactl get clusters` lists them")
    if "," in cluster:
        raise Failed(f"karmadactl {name} works in one cluster at a time, not in {cluster}")
    return cluster
