"""The log's server is started anew when it cannot write any more and its disk can; in no other case."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from services.cli.installation import disk_watch as log_watch
from services.cli.installation.disk_watch import look

WRITE_ERROR = b'{"status":"unavailable","error":"JetStream stream FACTS write error: no space left on device"}'
TURNED_OFF = b'{"status":"unavailable","error":"JetStream not enabled (10076)"}'
ELECTING = b'{"status":"unavailable","error":"JetStream has not established contact with a meta leader"}'


@pytest.fixture
def healthz():
    """Answers what `server.says` holds: status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = server.says
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.says = (200, b'{"status":"ok"}')
    server.url = f"http://127.0.0.1:{server.server_port}/healthz"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Answers may take their time where another process has the processor."""
    monkeypatch.setattr(log_watch, "ANSWER_SECONDS", 60.0)


@pytest.fixture
def process(tmp_path):
    """A process that waits, and the file with its id."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        file = tmp_path / "nats.pid"
        file.write_text(f"{waiting.pid}\n")
        yield waiting, file
        waiting.kill()


@pytest.mark.parametrize("body", [WRITE_ERROR, TURNED_OFF])
def test_it_is_ended_once_the_disk_takes_writes(healthz, process, tmp_path, body):
    waiting, file = process
    healthz.says = (503, body)
    store = tmp_path / "store"
    text, ended = look(healthz.url, store, file)
    assert (ended, waiting.poll()) == (False, None)
    assert "cannot write" in text
    assert str(store) in text
    store.mkdir()
    text, ended = look(healthz.url, store, file)
    assert ended
    assert f"process {waiting.pid}" in text
    assert waiting.wait(60) != 0
    assert list(store.iterdir()) == []


@pytest.mark.parametrize("says", [(200, b'{"status":"ok"}'), (503, ELECTING), (503, b"what?"), (500, b"")])
def test_it_is_left_alone_otherwise(healthz, process, tmp_path, says):
    waiting, file = process
    healthz.says = says
    assert look(healthz.url, tmp_path, file) == ("", False)
    assert waiting.poll() is None


def test_a_server_that_does_not_run_is_the_supervisors(tmp_path):
    assert look("http://127.0.0.1:1/healthz", tmp_path, tmp_path / "none.pid") == ("", False)
    assert list(tmp_path.iterdir()) == []


def test_why_a_server_cannot_start_is_told(tmp_path):
    store = tmp_path / "away"
    text, ended = look("http://127.0.0.1:1/healthz", store, tmp_path / "none.pid")
    assert not ended
    assert "does not start" in text
    assert str(store) in text


def test_a_server_that_ended_meanwhile_is_not_missed(healthz, tmp_path):
    healthz.says = (503, WRITE_ERROR)
    assert look(healthz.url, tmp_path, tmp_path / "none.pid")[1]
