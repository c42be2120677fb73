"""The program: flags, bad settings, a graceful end while a review is under way."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import ssl
import sys
from functools import partial
from pathlib import Path

import msgspec

from services.webhook.decide import REVIEW_API
from tests.integration.webhook.running import DAY, make_pair
from tests.support.reviews import request_of, review
from tests.support.waiting import eventually


async def start(*flags: str) -> asyncio.subprocess.Process:
    """The program in a process of its own, without settings of the surroundings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETLOG_")}
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "services.webhook", *flags]
    return await asyncio.create_subprocess_exec(*command, env=environment, stdout=pipe, stderr=pipe)


async def refuses(port: int) -> bool:
    """Whether no new connection is taken."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return True
    writer.close()
    return False


async def logged(process: asyncio.subprocess.Process, event: str) -> dict[str, object]:
    """The next line of the log with an event."""
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while True:
            text = await process.stderr.readline()
            assert text, f"the log ended before {event!r}"
            line = msgspec.json.decode(text)
            if line["event"] == event:
                return dict(line)


async def test_it_ends_after_the_review_that_is_under_way(tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    make_pair(tmp_path, now - DAY, now + 90 * DAY)
    files = (f"--serving-cert={tmp_path}/tls.crt", f"--serving-key={tmp_path}/tls.key")
    process = await start(*files, "--api-port=0", "--control-kubeconfig=/none", "--instance=hook-0")
    line = await logged(process, "reviews")
    await logged(process, "ready")
    trust = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(str(line["port"])), ssl=trust)
    taints = {"apiVersion": "v1", "kind": "ClusterTaintPolicy", "metadata": {"name": "a"}, "spec": {"taints": []}}
    body = review(request_of("ClusterTaintPolicy", "CREATE", taints))
    head = f"POST /validate-clustertaintpolicy HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Expect: 100-continue\r\n\r\n")
    async with asyncio.timeout(60):
        assert b"100" in await reader.readuntil(b"\r\n\r\n")
    writer.write(body[:50])
    process.send_signal(signal.SIGTERM)
    await eventually(partial(refuses, int(str(line["port"]))), "no new connections")
    writer.write(body[50:])
    try:
        async with asyncio.timeout(60):
            assert b"200" in await reader.readline()
            answer = await reader.read()
            assert REVIEW_API.encode() in answer
            assert b'"allowed":true' in answer
            await logged(process, "stopped")
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_settings_that_are_missing_end_it_with_2() -> None:
    process = await start("--serving-cert=/none/tls.crt", "--serving-key=/none/tls.key", "--control-kubeconfig=/none")
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"FLEETLOG_SERVING_CERT" in said
    process = await start()
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"FLEETLOG_CONTROL_KUBECONFIG is not set" in said


async def test_help_names_its_own_flags() -> None:
    process = await start("--help")
    shown, _ = await process.communicate()
    assert process.returncode == 0
    for flag in (b"--allow-no-execute-taint-policy", b"--tls-min-version", b"--drain-seconds"):
        assert flag in shown
