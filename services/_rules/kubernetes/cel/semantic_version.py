"""Semantic versions: read as Kubernetes' expressions read them, and in the order of their precedence."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_LARGEST: Final = (1 << 64) - 1
_DIGITS: Final = re.compile(r"[0-9]*")
_WORD: Final = re.compile(r"[0-9A-Za-z-]*")


class VersionError(ValueError):
    """A text that is no semantic version; the text says why, as Kubernetes words it."""


class Version(msgspec.Struct, frozen=True):
    """A version without the data of its build, which takes no part in comparisons."""

    major: int
    minor: int
    patch: int
    pre_release: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        """Return the canonical text: versions of the same precedence have the same."""
        behind = "-" + ".".join(map(str, self.pre_release)) if self.pre_release else ""
        return f"{self.major}.{self.minor}.{self.patch}{behind}"

    def __lt__(self, other: Version) -> bool:
        """Return whether this version comes before another."""
        return self._order() < other._order()

    def _order(self) -> tuple[object, ...]:
        # Numbers come before words, and what is before a release before the release.
        parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.pre_release)
        return self.major, self.minor, self.patch, not parts, parts


def parse(text: str, *, normalize: bool = False) -> Version:
    """Return the version; `normalize` takes a leading `v`, leading zeros and missing parts. Raises VersionError."""
    text = _normalized(text) if normalize else text
    if not text:
        raise VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise VersionError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    last, dash, before = rest.partition("-")
    major, minor = _number(parts[0], "major number"), _number(parts[1], "minor number")
    patch = _number(last, "patch number")
    pre_release = tuple(_pre_release(part) for part in before.split(".")) if dash else ()
    for part in build.split(".") if plus else ():
        _check_build(part)
    return Version(major, minor, patch, pre_release)


def _normalized(text: str) -> str:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise VersionError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _without_zeros(part: str) -> str:
    shorter = part.lstrip("0")
    if len(part) < 2 or (shorter and shorter[0] in "0123456789"):
        return shorter if len(part) > 1 else part
    return f"0{shorter}"


def _number(text: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise VersionError(f'Invalid character(s) found in {name} "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise VersionError(f'{name.capitalize()} must not contain leading zeroes "{text}"')
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if not text:
        raise VersionError('strconv.ParseUint: parsing "": invalid syntax')
    # No number of more digits fits; counting them first keeps reading cheap.
    if len(text) > len(str(_LARGEST)) or int(text) > _LARGEST:
        raise VersionError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _pre_release(text: str) -> int | str:
    if not text:
        raise VersionError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise VersionError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        return _unsigned(text)
    if not _WORD.fullmatch(text):
        raise VersionError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def _check_build(text: str) -> None:
    if not text:
        raise VersionError("Build meta data is empty")
    if not _WORD.fullmatch(text):
        raise VersionError(f'Invalid character(s) found in build meta data "{text}"')
