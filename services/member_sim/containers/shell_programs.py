"""The programs of simulated containers: what each writes for its arguments and its input."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from services.member_sim.containers.container_files import Inside, resolved
from services.member_sim.streams.channel_frames import Size

PIECE: Final = 32 << 10
_ZERO: Final = "/dev/zero"
_SHELLS: Final = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZES: Final = {"": 1, "b": 512, "k": 1024, "K": 1024, "M": 1 << 20, "G": 1 << 30}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "0": "\0"}
_DATE: Final = {"s": "", "Y": "%Y", "m": "%m", "d": "%d", "H": "%H", "M": "%M", "S": "%S", "F": "%F", "T": "%T"}

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]


class Process:
    """One program that runs: its arguments, streams and surroundings."""

    def __init__(
        self,
        words: list[str],
        inside: Inside,
        variables: dict[str, str],
        *,
        read: Read,
        out: Write,
        err: Write,
        now: Callable[[], float],
        size: Callable[[], Size],
    ) -> None:
        self.name, self.arguments = words[0], words[1:]
        self.inside, self.variables = inside, variables
        self.read, self.out, self.err = read, out, err
        self.now, self.size = now, size

    async def say(self, text: str) -> int:
        """Write a text; the exit code of success."""
        await self.out(text.encode())
        return 0

    async def fail(self, text: str, code: int = 1) -> int:
        """Write why it failed; the exit code."""
        await self.err(f"{self.name}: {text}\n".encode())
        return code

    def path(self, name: str) -> str:
        """A path from the root."""
        return resolved(self.variables.get("PWD", "/"), name)

    async def pieces(self, name: str) -> AsyncGenerator[bytes, None]:
        """The bytes of a file, or of the input where the name is `-`; raises OSError."""
        if name == "-":
            while piece := await self.read():
                yield piece
            return
        path = self.path(name)
        if path == _ZERO:
            while True:
                yield bytes(PIECE)
        if path not in self.inside.files:
            raise FileNotFoundError(f"{name}: No such file or directory")
        data = self.inside.files[path]
        if data is None:
            raise IsADirectoryError(f"{name}: Is a directory")
        yield data


Program = Callable[[Process], Awaitable[int]]


def program(word: str) -> Program | None:
    """The program of that name or path."""
    for directory in _SHELLS:
        if word.startswith(directory):
            return _PROGRAMS.get(word[len(directory) :])
    return _PROGRAMS.get(word)


async def _echo(process: Process) -> int:
    words = list(process.arguments)
    end, escapes = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags = words.pop(0)
        end = "" if "n" in flags else end
        escapes = "e" in flags or (escapes and "E" not in flags)
    text = " ".join(words)
    return await process.say((_unescaped(text) if escapes else text) + end)


async def _printf(process: Process) -> int:
    if not process.arguments:
        return await process.fail("usage: printf FORMAT [ARG]...")
    form, *words = process.arguments
    rest = iter(words)
    text = re.sub(r"%[sd%]", lambda found: "%" if found[0] == "%%" else next(rest, ""), _unescaped(form))
    return await process.say(text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([ntra0\\])", lambda found: _ESCAPES[found[1]], text)


async def _cat(process: Process) -> int:
    code = 0
    for name in process.arguments or ["-"]:
        try:
            async with aclosing(process.pieces(name)) as pieces:
                async for piece in pieces:
                    await process.out(piece)
        except OSError as e:
            if isinstance(e, ConnectionError):
                raise
            code = await process.fail(f"can't open {e}" if isinstance(e, FileNotFoundError) else str(e))
    return code


async def _head(process: Process) -> int:
    unit, count, names = "n", 10, []
    words = list(process.arguments)
    while words:
        word = words.pop(0)
        if re.fullmatch(r"-[0-9]+", word):
            word = f"-n{word[1:]}"
        if word[:2] in ("-c", "-n"):
            unit, text = word[1], word[2:] or (words.pop(0) if words else "")
            number = re.fullmatch(r"([0-9]{1,15})([bkKMG]?)", text)
            if number is None:
                return await process.fail(f"invalid number '{text}'")
            count = int(number[1]) * _SIZES[number[2]]
        else:
            names.append(word)
    for name in names or ["-"]:
        left = count
        try:
            async with aclosing(process.pieces(name)) as pieces:
                while left > 0 and (piece := await anext(pieces, b"")):
                    part, left = _cut(piece, left, lines=unit == "n")
                    await process.out(part)
        except (FileNotFoundError, IsADirectoryError) as e:
            return await process.fail(str(e))
    return 0


def _cut(piece: bytes, left: int, *, lines: bool) -> tuple[bytes, int]:
    """What of a piece is within the bound, and what is left of the bound then."""
    if not lines:
        return piece[:left], left - min(left, len(piece))
    found = piece.count(b"\n")
    if found < left:
        return piece, left - found
    place = -1
    for _ in range(left):
        place = piece.index(b"\n", place + 1)
    return piece[: place + 1], 0


async def _wc(process: Process) -> int:
    flags = "".join(word[1:] for word in process.arguments if word.startswith("-"))
    names = [word for word in process.arguments if not word.startswith("-")]
    for name in names or ["-"]:
        lines = count = 0
        try:
            async with aclosing(process.pieces(name)) as pieces:
                async for piece in pieces:
                    lines += piece.count(b"\n")
                    count += len(piece)
        except (FileNotFoundError, IsADirectoryError) as e:
            return await process.fail(str(e))
        shown = [str(number) for flag, number in (("l", lines), ("c", count)) if flag in flags or not flags]
        await process.say(" ".join([*shown, *([name] if names else [])]) + "\n")
    return 0


async def _env(process: Process) -> int:
    return await process.say("".join(f"{name}={value}\n" for name, value in process.variables.items()))


async def _hostname(process: Process) -> int:
    return await process.say(f"{process.inside.hostname}\n")


async def _ls(process: Process) -> int:
    flags = "".join(word[1:] for word in process.arguments if word.startswith("-"))
    names = [word for word in process.arguments if not word.startswith("-")] or ["."]
    code = 0
    for number, name in enumerate(names):
        path = process.path(name)
        entries = process.inside.listed(path)
        if entries is None and path not in process.inside.files:
            code = await process.fail(f"{name}: No such file or directory")
            continue
        if entries is not None and len(names) > 1:
            await process.say(f"{chr(10) if number else ''}{name}:\n")
        for entry in [name] if entries is None else entries:
            await process.say(_entry(process, path if entries is None else f"{path.rstrip('/')}/{entry}", entry, flags))
    return code


def _entry(process: Process, path: str, name: str, flags: str) -> str:
    if "l" not in flags:
        return f"{name}\n"
    data = process.inside.files.get(path)
    mode, size = ("drwxr-xr-x", 4096) if data is None else ("-rw-r--r--", len(data))
    return f"{mode}    1 root     root     {size:>9} Jan  1 00:00 {name}\n"


async def _sleep(process: Process) -> int:
    if not process.arguments:
        return await process.fail("missing operand")
    total = 0.0
    for word in process.arguments:
        found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd]?)", word)
        if found is None and word not in ("infinity", "inf"):
            return await process.fail(f"invalid number '{word}'")
        total += float(found[1]) * _UNITS[found[2]] if found is not None else 1e9
    await asyncio.sleep(total)
    return 0


async def _date(process: Process) -> int:
    moment = datetime.fromtimestamp(process.now(), UTC)
    form = next((word[1:] for word in process.arguments if word.startswith("+")), None)
    if form is None:
        return await process.say(f"{moment:%a %b %e %H:%M:%S} UTC {moment:%Y}\n")

    def shown(found: re.Match[str]) -> str:
        return str(int(moment.timestamp())) if found[1] == "s" else moment.strftime(_DATE[found[1]])

    return await process.say(re.sub(rf"%([{''.join(_DATE)}])", shown, form) + "\n")


async def _id(process: Process) -> int:
    user = process.inside.user
    if process.arguments == ["-u"]:
        return await process.say(f"{user}\n")
    return await process.say(f"uid={user} gid={user}\n" if user else "uid=0(root) gid=0(root) groups=0(root)\n")


async def _whoami(process: Process) -> int:
    user = process.inside.user
    return await process.fail(f"unknown uid {user}") if user else await process.say("root\n")


async def _pwd(process: Process) -> int:
    return await process.say(process.variables.get("PWD", "/") + "\n")


async def _uname(process: Process) -> int:
    name = process.inside.hostname
    return await process.say(f"Linux {name} 6.0.0-simulated x86_64 Linux\n" if process.arguments else "Linux\n")


async def _stty(process: Process) -> int:
    if process.arguments != ["size"]:
        return await process.fail("only `stty size` is simulated")
    size = process.size()
    return await process.say(f"{size.height} {size.width}\n")


async def _seq(process: Process) -> int:
    if not all(re.fullmatch(r"-?[0-9]{1,15}", word) for word in process.arguments):
        return await process.fail("whole numbers of at most 15 digits are needed")
    numbers = [int(word) for word in process.arguments]
    if not 1 <= len(numbers) <= 3 or (len(numbers) == 3 and not numbers[1]):
        return await process.fail("usage: seq [FIRST [STEP]] LAST")
    first, step = numbers[0] if len(numbers) > 1 else 1, numbers[1] if len(numbers) == 3 else 1
    found = range(first, numbers[-1] + (1 if step > 0 else -1), step)
    for start in range(0, len(found), 4096):
        await process.say("".join(f"{number}\n" for number in found[start : start + 4096]))
    return 0


async def _yes(process: Process) -> int:
    line = (" ".join(process.arguments) or "y").encode()[:PIECE] + b"\n"
    piece = line * (PIECE // len(line) or 1)
    while True:
        await process.out(piece)


async def _true(_: Process) -> int:
    return 0


async def _false(_: Process) -> int:
    return 1


_PROGRAMS: Final[dict[str, Program]] = {
    "cat": _cat,
    "date": _date,
    "echo": _echo,
    "env": _env,
    "false": _false,
    "head": _head,
    "hostname": _hostname,
    "id": _id,
    "ls": _ls,
    "printenv": _env,
    "printf": _printf,
    "pwd": _pwd,
    "seq": _seq,
    "sleep": _sleep,
    "stty": _stty,
    "true": _true,
    "uname": _uname,
    "wc": _wc,
    "whoami": _whoami,
    "yes": _yes,
}
