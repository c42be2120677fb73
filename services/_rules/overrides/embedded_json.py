"""JSON documents inside a text field: changed in place, untouched parts keep their order and the spelling of numbers.

A document is held as containers of raw parts, opened only along the paths of the operations.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw


class EmbeddedTextError(ValueError):
    """A text without the expected document; the message is the reason."""


def changed(text: str, change: Callable[[Any], Any]) -> str:
    """The text with a change applied to the document in it. Raises EmbeddedTextError and what the change raises."""
    if not text:
        return text
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        raise EmbeddedTextError(f"the text is no JSON: {problem}") from None
    except RecursionError:
        raise EmbeddedTextError("the text is JSON that is nested too deeply") from None
    document = _opened(Raw(text.strip().encode()))
    if not isinstance(document, dict | list) or (isinstance(document, list) and not text.startswith("[")):
        raise EmbeddedTextError("the text is JSON, but neither an object nor a list")
    try:
        return _compact(change(document))
    except RecursionError:
        raise EmbeddedTextError("what is to be written is nested too deeply") from None


def expanded(document: Any, path: str) -> Any:
    """The document with every raw part on the way to a path opened."""
    node = document
    for step in path.split("/")[1:]:
        key: Any = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            try:
                key = int(key)
                child = node[key]
            except (ValueError, IndexError):
                break
        elif isinstance(node, dict) and key in node:
            child = node[key]
        else:
            break
        if isinstance(child, Raw):
            child = node[key] = _opened(child)
        node = child
    return document


def _opened(raw: Raw) -> Any:
    first = bytes(raw)[:1]
    if first == b"{":
        return msgspec.json.decode(raw, type=dict[str, Raw])
    if first == b"[":
        return msgspec.json.decode(raw, type=list[Raw])
    return raw


def _compact(document: Any) -> str:
    """Without white space, and with the characters escaped that could end a script element."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=-1).decode()
    for character in "<>&\u2028\u2029":
        if character in text:
            text = text.replace(character, f"\\u{ord(character):04x}")
    return text
