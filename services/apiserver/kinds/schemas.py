"""Field schemas: resolving references, type checks, unknown fields and pruning."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def check_types(schema: Schema | None, obj: dict[str, Any], raw: bytes | None, resource: Any) -> None:
    """Check JSON types against the schema."""


def unknown_fields(schema: Schema | None, obj: dict[str, Any]) -> list[str]:
    """Return the paths of unknown fields."""
    return []


def prune(schema: Schema | None, obj: dict[str, Any]) -> None:
    """Drop unknown fields."""
