"""Compositions that run while the tests of a module look at them; without an engine all is skipped at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.containers import engine


@pytest.fixture(scope="session")
def image() -> Iterator[str]:
    """The image of the services, built from this working copy; its base stays, and so does it."""
    if reason := engine.why_not():
        pytest.skip(reason)
    engine.build()
    yield engine.IMAGE
    # Earlier builds of it, no images of others.
    engine.docker("image", "prune", "-f", "--filter", f"label={engine.TITLE}", check=False)
