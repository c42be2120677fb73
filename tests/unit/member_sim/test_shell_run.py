"""Commands in a simulated container: outputs, exit codes, pipes, and a terminal."""

import asyncio
from typing import Any

import pytest

from services._kit.concurrency.tasks import end
from services.member_sim.containers.container_files import Inside, inside
from services.member_sim.containers.pod_containers import find
from services.member_sim.containers.shell_run import run
from services.member_sim.containers.terminal import LineDiscipline
from services.member_sim.streams.byte_queue import ByteQueue
from services.member_sim.streams.channel_frames import Size
from tests.support.waiting import eventually

POD: dict[str, Any] = {
    "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "labels": {"app": "web"}},
    "spec": {
        "nodeName": "n1",
        "containers": [
            {
                "name": "c",
                "image": "registry.example:5000/lib/nginx:1.27@sha256:00",
                "env": [
                    {"name": "COLOR", "value": "blue"},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "volumeMounts": [{"name": "v", "mountPath": "/data/cache"}],
            }
        ],
    },
    "status": {"phase": "Running", "podIP": "10.1.2.3"},
}


class Streams:
    """The streams of one process, kept."""

    def __init__(self, stdin: bytes | None = b"") -> None:
        self.out, self.err = bytearray(), bytearray()
        self.size = Size(100, 40)
        self.stdin = ByteQueue()
        self.given = stdin

    async def read(self) -> bytes:
        if self.given is not None:
            data, self.given = self.given, b""
            return data
        return await self.stdin.get()

    async def write(self, data: bytes, *, error: bool = False) -> None:
        (self.err if error else self.out).extend(data)


@pytest.fixture
def container() -> Inside:
    return inside(find(POD, "c"))


async def ran(container: Inside, *command: str, stdin: bytes = b"") -> tuple[int, str, str]:
    streams = Streams(stdin)
    code = await run(list(command), container, streams, lambda: 1_700_000_000.0, tty=False)
    return code, streams.out.decode(), streams.err.decode()


@pytest.mark.parametrize(
    ("line", "code", "out"),
    [
        ("echo hello; exit 4", 4, "hello\n"),
        ("echo -n $COLOR-$NODE-$APP-$SECRET", 0, "blue-n1-web-"),
        ("hostname && pwd", 0, "web-1\n/\n"),
        ("false || echo fell; echo $?", 0, "fell\n0\n"),
        ("false && echo never; echo $?", 0, "1\n"),
        ("cat /etc/hostname", 0, "web-1\n"),
        ("ls /data", 0, "cache\n"),
        ("cd /usr/share; cd nginx; pwd; ls", 0, "/usr/share/nginx\nhtml\n"),
        ("yes | head -n 2", 0, "y\ny\n"),
        ("seq 1 1000 | cat | wc -l", 0, "1000\n"),
        ("seq 3 -1 1", 0, "3\n2\n1\n"),
        ("head -c 5 /dev/zero | wc -c", 0, "5\n"),
        ("head -2 /etc/hosts | tail", 127, ""),
        ("date +%s; date +%F", 0, "1700000000\n2023-11-14\n"),
        ("X=1 env | head -c 0; Y=2; echo $X$Y", 0, "2\n"),
        ("export Z='a b'; echo \"$Z\"", 0, "a b\n"),
        ("printf '%s-%d\\n' a 7", 0, "a-7\n"),
        ("echo lost >/dev/null; nope 2>/dev/null; echo $?", 0, "127\n"),
        ("cat /none 2>&1", 1, "cat: can't open /none: No such file or directory\n"),
        ("stty size", 0, "40 100\n"),
        ("sleep 0; true | exit 9; echo on", 0, "on\n"),
    ],
)
async def test_a_line_gives_its_output_and_exit_code(container: Inside, line: str, code: int, out: str) -> None:
    assert (await ran(container, "sh", "-c", line))[:2] == (code, out)


async def test_programs_run_without_a_shell(container: Inside) -> None:
    assert await ran(container, "/bin/echo", "$COLOR;", "x") == (0, "$COLOR; x\n", "")
    assert await ran(container, "cat", stdin=b"abc") == (0, "abc", "")
    assert await ran(container, "ls", "/none") == (1, "", "ls: /none: No such file or directory\n")


async def test_an_unknown_program_ends_with_127(container: Inside) -> None:
    code, out, err = await ran(container, "nope")
    assert (code, out) == (127, "")
    assert 'exec: "nope": executable file not found in $PATH' in err
    assert await ran(container, "sh", "-c", "nope") == (127, "", "sh: nope: not found\n")


async def test_a_script_comes_from_standard_input(container: Inside) -> None:
    script = b"echo one\ncat\nthis goes to cat\n"
    assert await ran(container, "sh", stdin=script) == (0, "one\nthis goes to cat\n", "")
    assert (await ran(container, "sh", stdin=b"exit 7\necho never"))[:2] == (7, "")


async def test_what_cannot_be_read_ends_with_2(container: Inside) -> None:
    code, _, err = await ran(container, "sh", "-c", "while true; do date; done")
    assert code == 2
    assert "loops, conditions and groups are not simulated" in err


async def test_nothing_grows_beyond_its_bound(container: Inside) -> None:
    doubled = "X=aaaaaaaaaaaaaaaa; " + "X=$X$X; " * 40
    assert await ran(container, "sh", "-c", f"{doubled} echo $X | wc -c") == (0, f"{(64 << 10) + 1}\n", "")
    for long in ("$X" * 50, "$X " * 50):
        code, _, err = await ran(container, "sh", "-c", f"{doubled} echo {long}")
        assert (code, "a command of more than" in err) == (2, True)
    assert (await ran(container, "seq", "1", "9" * 30))[0] == 1
    deep = {**POD["spec"]["containers"][0], "volumeMounts": [{"mountPath": "/a" * 1_000_000}]}
    found = inside(find({**POD, "spec": {"containers": [deep]}}, "c"))
    assert len(found.files) < 300


async def test_a_terminal_edits_interrupts_and_ends(container: Inside) -> None:
    streams = Streams(None)
    task = asyncio.create_task(run(["sh"], container, streams, lambda: 0.0, tty=True))

    async def types(keys: bytes, shows: bytes) -> None:
        await streams.stdin.put(keys)
        await eventually(lambda: bytes(streams.out).endswith(shows), f"{shows!r} in {bytes(streams.out)!r}")

    await types(b"", b"/ # ")
    await types(b"ecx\x7fho hi\r", b"ec\x78\b \bho hi\r\nhi\r\n/ # ")
    await types(b"sleep 1000\r", b"sleep 1000\r\n")
    await types(b"\x03", b"^C\r\n/ # ")
    await types(b"echo $?\r", b"130\r\n/ # ")
    await types(b"half\x03", b"half^C\r\n/ # ")
    await streams.stdin.put(b"\x04")
    assert await task == 0


async def test_output_waits_for_who_reads_it(container: Inside) -> None:
    class Slow(Streams):
        async def write(self, data: bytes, *, error: bool = False) -> None:
            await super().write(data)
            await asyncio.Event().wait()

    streams = Slow()
    task = asyncio.create_task(run(["yes"], container, streams, lambda: 0.0, tty=False))
    await eventually(lambda: streams.out)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(streams.out) <= 64 << 10
    await end(task)


@pytest.mark.parametrize(
    ("keys", "shown", "read"),
    [
        (b"ab\r", b"ab\n", b"ab\n"),
        (b"a\x1b[Ab\r", b"ab\n", b"ab\n"),
        (b"abc\x15d\n", b"abc" + b"\b \b" * 3 + b"d\n", b"d\n"),
        (b"\x7f\x7fa\n", b"a\n", b"a\n"),
        (b"ab\x04", b"ab", b"ab"),
        (b"a" * 5000, b"a" * 4096 + b"\a" * 904, b""),
    ],
)
def test_keys_become_lines(keys: bytes, shown: bytes, read: bytes) -> None:
    typed = LineDiscipline().feed(keys)
    assert (bytes(typed.shown), bytes(typed.read)) == (shown, read)


def test_a_waiting_container_has_no_run() -> None:
    pod: dict[str, Any] = {**POD, "status": {"phase": "Pending"}}
    assert find(pod, "c").run is None
    assert find(pod, "c").image == "nginx"
