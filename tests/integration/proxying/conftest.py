"""The global proxy in front of two embedded members."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.view_world import ViewWorld, view_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ViewWorld]:
    async with view_world(tmp_path, "member1", "member2") as made:
        yield made
