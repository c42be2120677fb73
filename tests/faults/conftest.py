"""Rounds of faults last longest of all files: they begin first, so that nobody waits for them alone at the end."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the rounds before everything else; the order is random otherwise."""
    items.sort(key=lambda item: item.path.name != "test_rounds.py")
