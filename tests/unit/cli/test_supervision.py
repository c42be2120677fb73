"""Processes end with their supervisor, whatever ended it; those that hang or are left over are found and stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.cli.common.layout import Layout
from services.cli.common.running import Failed
from services.cli.installation.environment import limits_of
from services.cli.installation.processes import Supervisor
from services.cli.supervision.liveness import Limits
from services.cli.supervision.liveness_probe import Address
from services.cli.supervision.lock import AlreadyRunning, Lock
from services.cli.supervision.process_identity import Entry, Roll, Running, current, runs, start_of
from services.cli.supervision.stop_command import stop_installation
from services.cli.supervision.supervised_process import Rank
from tests.e2e.fleet import until
from tests.support.ports import Reserved
from tests.support.standing import stand_still
from tests.support.supervised import empty_installation, supervised

ROOT = Path(__file__).parents[3]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An installation that nothing runs of."""
    return empty_installation(tmp_path / "installation")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def recorded(process: subprocess.Popen[bytes], name: str = "sleeper", rank: int = 2) -> Entry:
    return Entry(name=name, rank=rank, running=Running(process.pid, start_of(process.pid)))


@contextmanager
def supervising(layout: Layout, body: str, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process of its own that holds the lock and supervises what `body` adds to `supervisor`."""
    program = f"""
    import sys, time
    from pathlib import Path
    from services.cli.common.layout import Layout
    from services.cli.supervision.lock import Lock
    from services.cli.installation.processes import Supervisor
    from services.cli.supervision.supervised_process import Rank
    from services.cli.supervision import child
    {before}
    layout = Layout(Path({str(layout.directory)!r}))
    with Lock(layout.lock):
        supervisor = Supervisor(layout)
        supervisor.listen()
        {body}
        print("ready", flush=True)
        while not supervisor.asked_to_stop:
            supervisor.wait()
            supervisor.tick()
        supervisor.stop()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def until_supervised(supervisor: Supervisor, what: str, look: Callable[[], object]) -> None:
    """Supervise until something holds."""

    def holds() -> object:
        supervisor.wait(0.1)
        supervisor.tick()
        return look()

    until(what, holds)


def until_started_again(supervisor: Supervisor, layout: Layout, name: str) -> None:
    """Supervise until a service has another process."""
    first = layout.pid(name).read_text()
    until_supervised(supervisor, "another process", lambda: layout.pid(name).read_text() != first)


def has_open(pid: int, path: Path) -> bool:
    return path in {Path(os.path.realpath(link)) for link in Path(f"/proc/{pid}/fd").iterdir()}


TWO = (
    "supervisor.add_service('service', Rank.SERVICE, 'tests.support.sleeping', {});"
    "supervisor.add_command('program', Rank.LOG, ['sleep', '600'])"
)


def test_processes_end_with_a_killed_supervisor(layout: Layout) -> None:
    with supervising(layout, TWO) as process:
        left = Roll(layout.roll).left()
        assert [entry.name for entry in left] == ["service", "program"]
        process.kill()
        process.wait()
        until("everything has ended", lambda: not Roll(layout.roll).left())


def test_children_end_by_a_pipe_without_help_of_the_kernel(layout: Layout) -> None:
    body = "supervisor.add_service('service', Rank.SERVICE, 'tests.support.sleeping', {})"
    with supervising(layout, body, "child._prctl = lambda: None") as process:
        assert len(Roll(layout.roll).left()) == 1
        process.kill()
        process.wait()
        until("it has ended", lambda: not Roll(layout.roll).left())


def test_lock_is_released_while_children_of_its_holder_run(layout: Layout) -> None:
    with supervising(layout, TWO) as process:
        with (
            pytest.raises(AlreadyRunning, match=f"process {process.pid}, since 20.*fleetlog stop --dir"),
            Lock(layout.lock),
        ):
            pass
        left = Roll(layout.roll).left()
        # A child shares it until it runs for the first time.
        until("no child holds the lock", lambda: not any(has_open(entry.running.pid, layout.lock) for entry in left))
        for entry in left:
            # One that stands still does not end with its supervisor.
            stand_still(entry.running.pid)
        process.kill()
        process.wait()
        with Lock(layout.lock):
            assert Roll(layout.roll).left() == left
        said: list[str] = []
        done = stop_installation(layout, 60.0, said.append)
        assert done.startswith("stopped 2 processes of the installation")
        assert f"found 2 processes of an installation whose supervisor (process {os.getpid()}" in said[0]
        assert Roll(layout.roll).left() == []
        assert not list(layout.lock.parent.glob("*.pid"))
        assert stop_installation(layout, 60.0, said.append).startswith("no installation runs in")


def test_running_installation_is_stopped_by_its_supervisor(layout: Layout) -> None:
    with supervising(layout, TWO) as process:
        said: list[str] = []
        assert (
            stop_installation(layout, 60.0, said.append)
            == f"stopped the installation in {layout.directory}; its data stays"
        )
        assert said[0].startswith(f"stopping the installation of process {process.pid}, which runs since 20")
        assert process.wait() == 0
        assert not layout.roll.exists()


def test_supervisor_that_does_not_stop_is_killed(layout: Layout) -> None:
    with supervising(
        layout, TWO + "; supervisor._asked = None; import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    ) as process:
        said: list[str] = []
        done = stop_installation(layout, 0.2, said.append)
        assert "its data stays" in done
        assert any(f"process {process.pid} did not end within 0.2 s and is killed" in line for line in said)
        assert process.wait() == -signal.SIGKILL
        assert Roll(layout.roll).left() == []


def test_process_with_a_reused_pid_is_left_alone(layout: Layout, sleeper: subprocess.Popen[bytes]) -> None:
    Roll(layout.roll).write([Entry(name="old", rank=0, running=Running(sleeper.pid, "another start"))])
    assert stop_installation(layout, 60.0, lambda _: None).startswith("no installation runs")
    assert sleeper.poll() is None


def test_leftover_processes_are_stopped_by_rank(layout: Layout, tmp_path: Path) -> None:
    told = tmp_path / "order"
    program = (
        "import signal, sys, time\n"
        f"signal.signal(15, lambda *_: (open({str(told)!r}, 'a').write(sys.argv[1]), sys.exit()))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    )
    processes = []
    for name in "ab":
        process = subprocess.Popen([sys.executable, "-c", program, name], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        processes.append(process)
    Roll(layout.roll).write(
        recorded(process, name, rank) for process, name, rank in zip(processes, "ab", (0, 2), strict=True)
    )
    stop_installation(layout, 60.0, lambda _: None)
    assert told.read_text() == "ba"
    for process in processes:
        process.communicate()


def test_other_command_with_the_lock_is_named(layout: Layout) -> None:
    with Lock(layout.lock, "fleetlog log repair"):
        for attempt in (Lock(layout.lock).__enter__, lambda: stop_installation(layout, 1.0, lambda _: None)):
            with pytest.raises(
                (AlreadyRunning, Failed), match=f"`fleetlog log repair` .process {os.getpid()}. works on"
            ):
                attempt()


def test_stop_without_an_installation_fails(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"no installation in .*--dir"):
        stop_installation(Layout(tmp_path), 1.0, lambda _: None)


def test_zombie_counts_as_ended() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_of(process.pid) == ""
    assert runs(current())


@pytest.mark.parametrize("answers", ["never", "silent", "tls"])
def test_service_that_never_answers_is_restarted(
    answers: str, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as silent, supervised(layout, Limits(start=0.5, silence=0.5)) as supervisor:
        silent.bind(("127.0.0.1", 0))
        if answers != "never":
            silent.listen()
        address = Address(silent.getsockname()[1], tls=answers == "tls")
        supervisor.add_service("hanging", Rank.SERVICE, "tests.support.sleeping", {}, answers=[address])
        until_started_again(supervisor, layout, "hanging")
    said = capsys.readouterr().err
    port = address.port
    assert f"hanging is given up: it never answered at port {port} for 0.5 s; it is started again; its log: " in said
    assert said.count("\n") == 1
    assert "sleeping.py" in layout.log("hanging").read_text(), "where it hung"


@pytest.mark.parametrize("tls", [False, True])
def test_service_that_falls_silent_is_restarted(
    tls: bool, layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reserved = Reserved()
    environment = {"ANSWERING_PORT": str(reserved.number), "ANSWERING_TLS": str(tmp_path) if tls else ""}
    address = Address(reserved.number, tls=tls)
    with supervised(layout, Limits(start=60.0, silence=0.5)) as supervisor:
        supervisor.add_service("falling", Rank.SERVICE, "tests.support.answering_once", environment, answers=[address])
        until_started_again(supervisor, layout, "falling")
    assert f"falling is given up: it fell silent at port {address.port} for 0.5 s" in capsys.readouterr().err


def test_crash_loop_is_reported_once(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    starts = layout.directory / "starts"
    with supervised(layout) as supervisor:
        supervisor.add_command("failing", Rank.SERVICE, ["sh", "-c", f"echo x >> {starts}; exit 7"])
        until_supervised(supervisor, "five more starts", lambda: starts.exists() and starts.read_text().count("x") > 5)
    said = [line for line in capsys.readouterr().err.splitlines() if "failing" in line]
    assert len(said) == 3
    assert "died 3 times in a row right after its start (last: exit code 7)" in said[2]
    assert str(layout.log("failing")) in said[2]


def test_task_is_repeated_until_it_succeeds(layout: Layout) -> None:
    tries = layout.directory / "tries"

    def body() -> int:
        with tries.open("a") as file:
            file.write("x")
        return 0 if tries.stat().st_size == 3 else 1

    with supervised(layout) as supervisor:
        supervisor.add_task("task", body)
        until_supervised(supervisor, "the task is done", lambda: supervisor.names == [])
        assert tries.read_text() == "xxx"
        assert json.loads(layout.roll.read_bytes()) == []


def test_limits_are_seconds() -> None:
    assert limits_of({"FLEETLOG_UP_START_SECONDS": "5", "FLEETLOG_UP_SILENCE_SECONDS": "0"}) == Limits(
        start=5.0, silence=0.0
    )
    for text in ("soon", "-1", "nan", "inf"):
        with pytest.raises(Failed, match="FLEETLOG_UP_START_SECONDS"):
            limits_of({"FLEETLOG_UP_START_SECONDS": text})
