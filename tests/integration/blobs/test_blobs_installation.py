"""In a running installation: a Secret reaches push and pull members, lies nowhere in clear, and can be erased."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from services.cli.common.logbook import log_access, open_log, streams
from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.kubectls import current_kubectl
from tests.support.commands import run_command

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
PASSWORD = "correct-horse-battery-staple"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()
STREAMS = ("FACTS", "OBSERVED", "HISTORY", "BLOBS", "KEYS", "PARKED", "EXPLAINED")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A started installation."""
    if not current_kubectl():
        pytest.skip("kubectl is not installed and Debian's package cannot be fetched")
    made = Fleet(tmp_path_factory.mktemp("secrets")).start()
    try:
        yield made
    finally:
        made.stop()


def secret(text: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "precious", "namespace": "default"},
        "data": {"password": base64.b64encode(text.encode()).decode()},
    }


POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "precious", "namespace": "default"},
    "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "name": "precious"}], "placement": {}},
}


async def read_log(directory: Path) -> dict[str, list[bytes]]:
    async with open_log(log_access(directory)) as connection:
        logs = streams(connection)
        return {name: [message.data async for message in logs[name].read([">"])] for name in STREAMS}


def held(fleet: Fleet, member: str) -> str:
    found = fleet.kubectl(member).get("secret", "precious", "default")
    return str(found["data"]["password"]) if found else ""


def fleetlog(fleet: Fleet, *words: str) -> str:
    done = run_command("fleetlog", *words, "--dir", str(fleet.layout.directory))
    assert done.returncode == 0, done.stderr
    return done.stdout


def holders(directory: Path) -> list[Path]:
    """Files with the password, as it is or in base64, alone or within something longer."""
    raw = PASSWORD.encode()
    inner = (base64.b64encode(b"x" * shift + raw)[4 * bool(shift) : -4] for shift in range(3))
    wanted = (raw, *inner)
    found = []
    # What runs here writes and removes files and directories meanwhile.
    for place, _, names in os.walk(directory):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                text = content(path) if path.is_file() else b""
                if any(form in text for form in wanted):
                    found.append(path)
    return found


def content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


def _arrives_and_is_nowhere_in_clear(fleet: Fleet) -> None:
    control = fleet.kubectl()
    control.apply(POLICY)
    control.apply(secret(PASSWORD))
    for member in fleet.members:
        until_equal(f"the Secret in {member}", lambda name=member: held(fleet, name), ENCODED)
    log = asyncio.run(read_log(fleet.layout.directory))
    assert len(log["KEYS"]) == 1
    assert len(log["BLOBS"]) == 2, "one template, one copy for all members"
    for name, messages in log.items():
        assert not any(PASSWORD.encode() in data or ENCODED.encode() in data for data in messages), name
    exported = fleet.layout.directory / "exported.gz"
    fleetlog(fleet, "log", "export", str(exported))
    assert b"precious" in content(exported)
    assert holders(fleet.layout.directory) == []
    told = fleetlog(fleet, "events", "-o", "json", "--tail", "0") + fleetlog(fleet, "history", "secret", "precious")

    def shown() -> list[dict[str, Any]]:
        items = control.items("work", "karmada-es-member1")
        return items if any("precious" in work["metadata"]["name"] for work in items) else []

    works = json.dumps(until("the work in member1", shown))
    assert "precious" in told
    assert ENCODED not in told + works
    assert PASSWORD not in told + works


def _past_is_erased_and_present_goes_on(fleet: Fleet) -> None:
    before = asyncio.run(read_log(fleet.layout.directory))["BLOBS"]
    fleetlog(fleet, "secrets", "rotate")
    fleetlog(fleet, "secrets", "forget", "default")
    fleetlog(fleet, "secrets", "rotate", "--drop-old")
    until(
        "the Secret stored anew", lambda: len(asyncio.run(read_log(fleet.layout.directory))["BLOBS"]) >= len(before) + 2
    )
    fleet.kubectl().apply(secret("another-one"))
    wanted = base64.b64encode(b"another-one").decode()
    for member in fleet.members:
        until_equal(f"the changed Secret in {member}", lambda name=member: held(fleet, name), wanted)
    # What the API server wrote before and after is read by the next one.
    pid = fleet.kill("control")
    until("another API server", lambda: fleet.pid("control") not in (0, pid))
    stored = until("the Secret in the control plane", lambda: fleet.kubectl().get("secret", "precious", "default"))
    assert stored["data"]["password"] == wanted
    assert holders(fleet.layout.directory) == []


def test_a_secret_is_nowhere_in_clear_and_its_past_can_be_erased(fleet: Fleet) -> None:
    _arrives_and_is_nowhere_in_clear(fleet)
    _past_is_erased_and_present_goes_on(fleet)
