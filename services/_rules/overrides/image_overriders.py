"""Container image references: their parts, and changing one part (docs/sources.md#overrides)."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

_DOMAIN_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG: Final = r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(
    rf"((?:{_DOMAIN}/)?{_PATH_PART}(?:/{_PATH_PART})*)(?::({_TAG}))?(?:@({_DIGEST}))?", re.ASCII
)
_TAG_TEXT: Final = re.compile(_TAG)
_DIGEST_TEXT: Final = re.compile(_DIGEST)
# Digests are checked by their algorithm; others are not known to any registry client.
_DIGEST_LENGTHS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_LOWER_HEX: Final = re.compile(r"[0-9a-f]+")
_LONGEST_NAME: Final = 255
_LONGEST_SHOWN: Final = 300


class ImageError(ValueError):
    """A text that is no image reference; the message names the rule it breaks."""


class Image(Struct, frozen=True):
    """The parts of an image reference; a part that is not there is empty, and never both tag and digest are set."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        name = f"{self.registry}/{self.repository}" if self.registry else self.repository
        if self.tag:
            return f"{name}:{self.tag}"
        return f"{name}@{self.digest}" if self.digest else name


@lru_cache(maxsize=4096)
def parse(text: str) -> Image:
    """Take an image reference apart; a digest beside a tag is dropped. Raises ImageError."""
    if not text:
        raise ImageError("the image is empty")
    found = _REFERENCE.fullmatch(text)
    if found is None:
        hint = ": its name has upper-case letters" if _REFERENCE.fullmatch(text.lower()) else ""
        raise ImageError(f"{_shown(text)} is no image reference{hint}, use [registry/]name[:tag][@digest]")
    name, tag, digest = found[1], found[2] or "", found[3] or ""
    if len(name) > _LONGEST_NAME:
        raise ImageError(f"the name of image {_shown(text)} is longer than {_LONGEST_NAME} characters")
    if digest:
        _check_digest(text, digest)
    head, slash, rest = name.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        return Image(head, rest, tag, "" if tag else digest)
    return Image("", name, tag, "" if tag else digest)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]!r}…"


def change(text: str, component: str, operator: str, value: str) -> str:
    """The reference with one part added to, replaced or removed. Raises ImageError."""
    image = parse(text)
    match component:
        case "Registry":
            image = replace(image, registry=_changed(image.registry, operator, value))
        case "Repository":
            image = replace(image, repository=_changed(image.repository, operator, value))
        case "Tag":
            image = _TAG_CHANGES.get(operator, _keep)(image, value)
        case _:
            pass
    return str(image)


def _changed(current: str, operator: str, value: str) -> str:
    match operator:
        case "add":
            return current + value
        case "replace":
            return value
        case "remove":
            return ""
        case _:
            return current


def _set_tag_or_digest(image: Image, value: str) -> Image:
    """What the text looks like decides; a text that is neither changes nothing."""
    if _TAG_TEXT.fullmatch(value):
        return replace(image, tag=value, digest="")
    if _DIGEST_TEXT.fullmatch(value):
        return replace(image, tag="", digest=value)
    return image


def _keep(image: Image, _: str) -> Image:
    return image


_TAG_CHANGES: Final[dict[str, Callable[[Image, str], Image]]] = {
    "add": lambda image, value: _set_tag_or_digest(image, (image.tag or image.digest) + value),
    "replace": _set_tag_or_digest,
    "remove": lambda image, _: replace(image, tag="") if image.tag else replace(image, digest=""),
}


def _check_digest(text: str, digest: str) -> None:
    algorithm, _, digits = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise ImageError(
            f"image {_shown(text)}: digest algorithm {algorithm!r} is not one of {', '.join(_DIGEST_LENGTHS)}"
        )
    if len(digits) != length or _LOWER_HEX.fullmatch(digits) is None:
        raise ImageError(f"image {_shown(text)}: a {algorithm} digest has {length} lower-case hexadecimal digits")
