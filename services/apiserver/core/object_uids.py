"""Makes the uids of new objects."""

from __future__ import annotations

import os
from typing import Final

_BYTES: Final = 16
_AT_ONCE: Final = 256
"""Uids whose random bytes are fetched together: asking the kernel for each would cost more than all else about it."""
_VARIANT: Final = {f"{digit:x}": "89ab"[digit & 3] for digit in range(16)}

_spare: list[str] = []
# Processes that were forked from one must not give out the same uids.
os.register_at_fork(after_in_child=_spare.clear)


def new_uid() -> str:
    """Return a random UUID (version 4 of RFC 9562), from the kernel's source for cryptography."""
    if not _spare:
        digits = os.urandom(_BYTES * _AT_ONCE).hex()
        _spare.extend(digits[at : at + 2 * _BYTES] for at in range(0, len(digits), 2 * _BYTES))
    one = _spare.pop()
    return f"{one[:8]}-{one[8:12]}-4{one[13:16]}-{_VARIANT[one[16]]}{one[17:20]}-{one[20:]}"
