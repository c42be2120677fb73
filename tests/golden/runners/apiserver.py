"""Replays recorded conversations with a Kubernetes API server, and kubectl journeys, against the embedded one.

The tool that replays lies beside the recordings. The server runs as the recorded one did: version 1.20 or 1.36, no
controllers, no bootstrap tokens.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.ending import ends_with_us

ROOT = Path(__file__).resolve().parents[3]
TOOL = "replay_apiserver.py"
TOKEN = "admintoken"
WITH_ROLES = ("apiserver-dev2", "apiserver-136")
"""Files that were recorded with role-based access control."""
CURRENT = ("apiserver-136",)
"""Files that were recorded with version 1.36."""
OLD_SETTINGS = {
    "FLEETLOG_APISERVER_ALLOW_LOCAL_EXTENSIONS": "1",
    "FLEETLOG_APISERVER_VERSION": "v1.20.2",
    "FLEETLOG_APISERVER_SERVICE_CIDR": "10.99.0.0/16",
}
CURRENT_SETTINGS = {"FLEETLOG_APISERVER_SERVICE_CIDR": "10.0.0.0/16"}


def _tool(directory: Path) -> Path | None:
    places = (directory / TOOL, ROOT.parent / "shared" / "golden" / TOOL)
    return next((place for place in places if place.is_file()), None)


TOKENS = """\
admintoken,admin,admin,"system:masters"
alicetoken,alice,alice,"dev,team-a"
bobtoken,bob,bob,"ops"
caroltoken,carol,carol,"dev,ops"
davetoken,dave,dave
"""


def _serve(directory: str, recorded: dict[str, str], authorization: str) -> tuple[subprocess.Popen[str], str]:
    """A server of its own with empty memory; returns once it says that it is ready."""
    settings = {
        "FLEETLOG_APISERVER_DATA_DIR": directory,
        "FLEETLOG_APISERVER_PORT": "0",
        **recorded,
        "FLEETLOG_APISERVER_CONTROLLERS": "0",
        "FLEETLOG_APISERVER_BOOTSTRAP_TOKENS": "0",
        "FLEETLOG_APISERVER_TOKEN_FILE": str(Path(directory) / "tokens.csv"),
        "FLEETLOG_APISERVER_AUTHORIZATION": authorization,
    }
    (Path(directory) / "tokens.csv").write_text(TOKENS)
    server = ends_with_us(
        subprocess.Popen(
            [sys.executable, "-m", "services.apiserver"],
            cwd=ROOT,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line.startswith("ready "):
        server.kill()
        raise RuntimeError(f"the API server did not start: {line!r}")
    return server, line.split()[1]


def replay(path: Path) -> tuple[int, int, list[str]] | None:
    """Cases, passed ones and ids of failed ones of one file; None where the tool that replays is not there."""
    tool = _tool(path.parent)
    if tool is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        recorded = CURRENT_SETTINGS if path.name.startswith(CURRENT) else OLD_SETTINGS
        server, url = _serve(directory, recorded, "RBAC" if path.name.startswith(WITH_ROLES) else "AlwaysAllow")
        results = Path(directory) / "results.json"
        try:
            arguments = [str(path), "--server", url, "--token", TOKEN, "--insecure", "--json", str(results)]
            subprocess.run([sys.executable, str(tool), *arguments], stdout=subprocess.DEVNULL, check=False)
        finally:
            server.terminate()
            server.wait()
        outcomes = json.loads(results.read_text())
    failed = [outcome["id"] for outcome in outcomes if outcome["problem"]]
    return len(outcomes), len(outcomes) - len(failed), failed


FILE_RUNNERS = {"apiserver": replay, "kubectl-journeys": replay}
