"""The result of a decision: the events that make a key true, and what follows once they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from schemas.codec import Known


class Decision(Struct, frozen=True):
    """What should become true of a key; a service that has to remember more of its decisions extends it.

    `events` carry `own` and `inputs` in their provenance, the runtime fills in the rest. At `wake_at` (seconds since
    1970) the key is decided again. `effects` are carried out once the events are stored. `also` are other keys whose
    decision may change by what this one found out. Events that are `together` are stored in one batch, as far as one
    takes them; others may be stored one by one where no reader minds.
    """

    events: Sequence[Known] = ()
    wake_at: float | None = None
    effects: Sequence[object] = ()
    also: Sequence[Any] = ()
    together: bool = False


NOTHING: Final = Decision()
