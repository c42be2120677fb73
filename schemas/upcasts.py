"""Turns an event of an old version into the next one: one function per old tag, applied in a chain on reading.

Adding an optional field keeps the version. Anything else makes a new Struct with a new tag and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

Fields = dict[str, object]

UPCASTS: Final[Mapping[str, Callable[[Fields], Fields]]] = {}
