"""Kinds that need no defaults and no checks beyond their field types."""

from __future__ import annotations

from services.apiserver.kinds.builtin import BuiltinKind


class Plain(BuiltinKind):
    """A kind without a status subresource."""


class PlainWithStatus(BuiltinKind):
    """A kind with a status subresource and a generation, replaced only by name of the resourceVersion."""

    unconditional_update = False

    generation = True
    has_status = True
