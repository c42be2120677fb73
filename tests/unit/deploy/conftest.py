"""Files of an installation, made once for the tests of a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8s.compose import PULL
from services.cli.installation import certificate_files as certificates


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `fleetlog certs` makes."""
    directory = tmp_path_factory.mktemp("certs") / "deploy"
    assert certificates.make(directory, agents=[PULL]) == 0
    return directory
