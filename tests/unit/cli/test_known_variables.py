"""`fleetlog up` refuses FLEETLOG_* variables that nothing knows, and takes all that the documents and tests name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services.cli.installation.environment import APISERVER, UP, Unknown, known_names, refuse_unknown
from services.cli.installation.up import ALL_SERVICES
from tests.support.commands import run_command

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"FLEETLOG_[A-Z][A-Z_]*[A-Z]")
# Beginnings of names that stand in texts, and values that compose.yaml hands to the log's server.
NO_NAMES = frozenset(
    (UP.rstrip("_"), APISERVER.rstrip("_"), "FLEETLOG_MEMBER", "FLEETLOG_UPSTREAM", "FLEETLOG_HUB_PASSWORD")
)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FLEETLOG_CLUSTER_FAILURE_TRESHOLD", "did you mean FLEETLOG_CLUSTER_FAILURE_THRESHOLD?"),
        ("FLEETLOG_FEATURE_GATE", "did you mean FLEETLOG_FEATURE_GATES?"),
        ("FLEETLOG_MEMBER_CPUS", "did you mean FLEETLOG_MEMBER_CPU?"),
        ("FLEETLOG_APISERVER_CONTROLLER", "did you mean FLEETLOG_APISERVER_CONTROLLERS?"),
        ("FLEETLOG_UP_START_SECOND", "did you mean FLEETLOG_UP_START_SECONDS?"),
        ("FLEETLOG_XYZZY", "unset it"),
    ],
)
def test_an_unknown_variable_is_refused_with_a_hint(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(Unknown, match=re.escape(f"{name}: no such setting; {hint}")):
        refuse_unknown(["PATH", "FLEETLOG_DIR", name], ALL_SERVICES)


def test_up_refuses_it_before_anything_is_made(tmp_path: Path) -> None:
    directory = tmp_path / "fleet"
    ended = run_command("fleetlog", "up", "--dir", str(directory), FLEETLOG_FOO="1")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: FLEETLOG_FOO: no such setting")
    assert not directory.exists()


def test_variables_of_documents_are_known() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "compose.yaml", *(ROOT / "docs").glob("*.md")]
    named = {name for page in pages for name in NAME.findall(page.read_text(encoding="utf-8"))}
    assert not named - known_names(ALL_SERVICES) - NO_NAMES


def test_variables_of_tests_that_start_installations_are_known() -> None:
    files = [path for room in ("e2e", "faults", "bench") for path in (ROOT / "tests" / room).rglob("*.py")]
    named = {name for path in files for name in NAME.findall(path.read_text(encoding="utf-8"))}
    refuse_unknown(named - NO_NAMES, ALL_SERVICES)


def test_variables_of_the_api_server_are_listed() -> None:
    texts = [
        (ROOT / "services" / "apiserver" / name).read_text(encoding="utf-8") for name in ("settings.py", "__main__.py")
    ]
    read = {
        APISERVER + name
        for text in texts
        for name in re.findall(r'(?:text\(|parts\(|environ, )"([A-Z_]+)"', text)
        + re.findall(APISERVER + r"([A-Z_]+)", text)
    }
    assert read == {name for name in known_names(()) if name.startswith(APISERVER)}
