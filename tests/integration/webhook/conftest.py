"""A running webhook with objects that a test tells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.reviews import Caller, Known, reviewing


@pytest.fixture
def stored() -> Known:
    """What the control plane holds, as far as reviews read it."""
    return Known()


@pytest.fixture
async def caller(tmp_path: Path, stored: Known) -> AsyncIterator[Caller]:
    """Sends reviews to a running webhook."""
    async with reviewing(tmp_path, stored) as made:
        yield made
