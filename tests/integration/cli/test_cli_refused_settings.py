"""`fleetlog up` with settings that a service refuses: it ends at once and says what the service said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import run_command

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "FLEETLOG_FEATURE_GATES",
            "Failver=true",
            "cannot start: FLEETLOG_FEATURE_GATES: feature gate 'Failver' does not exist; did you mean Failover?",
        ),
        ("FLEETLOG_APISERVER_CONTROLLERS", "maybe", "control cannot start: FLEETLOG_APISERVER_CONTROLLERS: use 1 or 0"),
        ("FLEETLOG_MEMBER_CPU", "lots", "member1 cannot start: cpu: 'lots' is not a quantity"),
    ],
)
def test_up_ends_with_the_error_of_the_service(tmp_path: Path, variable: str, value: str, said: str) -> None:
    ended = run_command("fleetlog", "up", "--dir", str(tmp_path / "fleet"), "--members", "1", **{variable: value})
    assert (ended.returncode, ended.stdout) == (1, "")
    assert said in ended.stderr
    assert "is started again" not in ended.stderr
    assert "waiting for" not in ended.stderr.partition("failed")[2]
