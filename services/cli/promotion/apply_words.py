"""Takes the flags that are ours out of the words of `karmadactl apply`; all others are for kubectl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from services.cli.common.running import Failed

_TEXTS: Final = {
    "--cluster": "cluster",
    "--clusters": "cluster",
    "--kubeconfig": "kubeconfig",
    "--karmada-context": "context",
    "--context": "context",
}
_ALL: Final = "--all-clusters"
_TRUTH: Final = {"": True, "true": True, "false": False}
_SWITCHES: Final = "R"
"""Shorthands of kubectl apply that take no value."""
_NOT_FOR_LISTING: Final = ("--server-side", "--force-conflicts", "--prune", "--wait", "--dry-run", "--output", "-o")
_FOR_POLICIES: Final = ("--dry-run", "--output", "-o")
_FILES: Final = ("-f", "--filename")


class ApplyLine(NamedTuple):
    """What is ours, and the words for kubectl; no clusters and not all of them: plain kubectl apply."""

    words: tuple[str, ...]
    clusters: tuple[str, ...] = ()
    everywhere: bool = False
    kubeconfig: str = ""
    context: str = ""
    help: bool = False

    @property
    def placed(self) -> bool:
        """Whether the objects get policies."""
        return self.everywhere or bool(self.clusters)

    def listing(self) -> list[str]:
        """Words that make kubectl print the objects, and write none."""
        return [*_without(self.words, _NOT_FOR_LISTING), "--dry-run=client", "-o=json"]

    def for_policies(self) -> list[str]:
        """Of the words those that hold for the policies, too."""
        kept: list[str] = []
        for flag, value in _pairs(self.words):
            if flag in _FOR_POLICIES:
                kept += [flag if value is None else f"{flag}={value}"]
        return kept

    def reading(self, path: str) -> ApplyLine:
        """The same with a file in place of standard input."""
        found: list[str] = []
        for index, word in enumerate(self.words):
            flag, equals, value = word.partition("=")
            if word == "-" and index and self.words[index - 1] in _FILES:
                found.append(path)
            elif (flag in _FILES and equals and value == "-") or word == "-f-":
                found.append(f"--filename={path}")
            else:
                found.append(word)
        return self._replace(words=tuple(found))


def read_words(words: Sequence[str]) -> ApplyLine:
    """Sort the words; raises Failed for clusters and all of them at once, and for a flag without its value."""
    texts: dict[str, str] = {}
    clusters: list[str] = []
    kept: list[str] = []
    everywhere = asked = False
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        short = _short_cluster(word)
        if word == "--":
            kept += [word, *rest]
        elif flag == _ALL and value in _TRUTH:
            everywhere = _TRUTH[value]
        elif flag in _TEXTS:
            text = value if equals else _next(flag, rest)
            if _TEXTS[flag] == "cluster":
                clusters += text.split(",")
            else:
                texts[_TEXTS[flag]] = text
        elif short is not None:
            before, text = short
            kept += [before] if before else []
            clusters += (text or _next("-C", rest)).split(",")
        elif word in ("-h", "--help"):
            asked = True
        else:
            kept.append(word)
    named = tuple(dict.fromkeys(filter(None, clusters)))
    if named and everywhere:
        raise Failed(f"{_ALL} and --cluster exclude each other")
    return ApplyLine(tuple(kept), named, everywhere, help=asked, **texts)


def _short_cluster(word: str) -> tuple[str, str] | None:
    """What stands before and behind -C in a word of shorthands; None where it has none."""
    if not word.startswith("-") or word.startswith("--"):
        return None
    for index, letter in enumerate(word[1:], 1):
        if letter == "C":
            return (word[:index] if index > 1 else ""), word[index + 1 :].removeprefix("=")
        if letter not in _SWITCHES:
            return None
    return None


def _next(flag: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise Failed(f"flag needs an argument: {flag}")
    return value


def _pairs(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """Flags with their values, where the value may be a word of its own."""
    found: list[tuple[str, str | None]] = []
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if equals:
            found.append((flag, value))
        elif word.startswith("-o") and len(word) > 2:
            found.append(("-o", word[2:]))
        elif word in ("-o", "--output"):
            found.append((word, words[index + 1] if index + 1 < len(words) else ""))
        else:
            found.append((word, None))
    return found


def _without(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
            continue
        flag, equals, _ = word.partition("=")
        if flag in flags or (word.startswith("-o") and "-o" in flags and not word.startswith("--")):
            skip = not equals and word in ("-o", "--output")
            continue
        kept.append(word)
    return kept
