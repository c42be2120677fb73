"""What is asked of the objects of a kind: tests of shapes, keys and members, none of which unpacks an object."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from msgspec import Struct

from services.search.index.object_shapes import Shape


class Question(Struct, frozen=True):
    """Which objects of a kind are meant. `name` is equal for equal tests of shapes; no test: everything."""

    name: Hashable = None
    shape: Callable[[Shape], bool] | None = None
    key: Callable[[str], bool] | None = None
    fragments: tuple[str, ...] = ()
    """Texts that every key has in it which passes: found many times faster than the test is asked."""
    cluster: Callable[[str], bool] | None = None


EVERYTHING: Final = Question()
