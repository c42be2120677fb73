"""Settings of the override renderer: those of every service."""

from __future__ import annotations

from services._kit.content.master_keys import KeyedSettings


class RendererSettings(KeyedSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing of its own."""
