"""Runs commands in a simulated container: one program, or the small shell with its variables, pipes and exit codes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from services._kit.concurrency.tasks import all_of, first_of
from services.member_sim.containers.command_lines import (
    MOST_BYTES,
    MOST_EXPANDED,
    TOO_LONG,
    Command,
    Pipeline,
    Unreadable,
    expand,
    is_assignment,
    parse,
)
from services.member_sim.containers.container_files import Inside, resolved
from services.member_sim.containers.shell_programs import Process, Program, Read, Write, program
from services.member_sim.containers.terminal import Terminal
from services.member_sim.streams.byte_queue import ByteQueue
from services.member_sim.streams.process_streams import ProcessStreams

NOT_FOUND: Final = 127
_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141
_MOST_VARIABLES: Final = 1000
_PIPE: Final = 64 << 10
_SHELLS: Final = frozenset({"sh", "ash", "bash", "/bin/sh", "/bin/ash", "/bin/bash", "/usr/bin/bash", "/usr/bin/sh"})
_PROMPT: Final = b"/ # "


class _Exit(Exception):
    """The shell ends with a code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code & 255


class _BrokenPipe(Exception):
    """What a command writes is not read any more."""


class _Input:
    """Bytes of standard input, also by lines; what was read beyond a line is there for who reads next."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._held = b""

    async def read(self) -> bytes:
        held, self._held = self._held, b""
        return held or await self._read()

    async def line(self) -> str | None:
        """The next line; None at the end. Raises Unreadable for one that is too long."""
        held = self._held
        while b"\n" not in held:
            if len(held) > MOST_BYTES:
                self._held = b""
                raise Unreadable(f"a line of more than {MOST_BYTES} bytes")
            piece = await self._read()
            if not piece:
                self._held = b""
                return held.decode("utf-8", "replace") if held else None
            held += piece
            self._held = held
        line, _, self._held = held.partition(b"\n")
        return line.decode("utf-8", "replace")


async def run(
    command: list[str], inside: Inside, streams: ProcessStreams, now: Callable[[], float], *, tty: bool
) -> int:
    """Run a command until it ends; its exit code. Raises ConnectionError when its client is gone."""
    if not tty:
        return await _Shell(inside, streams, now, None).start(command)
    terminal = Terminal(streams)
    work = _Shell(inside, terminal, now, terminal).start(command)
    code = await first_of(work, _forever(terminal.pump()))
    return code or 0


async def _forever(work: Awaitable[None]) -> None:
    """Do something that goes on beside another thing and whose end ends nothing."""
    await work
    await asyncio.Event().wait()


class _Shell:
    """One process with its children."""

    def __init__(
        self, inside: Inside, streams: ProcessStreams, now: Callable[[], float], terminal: Terminal | None
    ) -> None:
        self._inside = inside
        self._streams = streams
        self._now = now
        self._terminal = terminal
        self._input = _Input(streams.read)
        self._variables = {**inside.variables, "PWD": inside.directory}
        self._code = 0

    async def start(self, command: list[str]) -> int:
        """Run what was asked for: a shell by its options, or one program."""
        if command[0] not in _SHELLS:
            found = program(command[0])
            if found is None:
                text = f'exec: "{command[0][:200]}": executable file not found in $PATH\n'
                await self._error(text.encode())
                return NOT_FOUND
            return await self._interruptible(self._one(found, command, self._input.read, self._out, self._error))
        words = command[1:]
        while words and words[0].startswith("-") and not words[0].endswith("c"):
            words = words[1:]
        try:
            if words and words[0].startswith("-"):
                if len(words) < 2:
                    await self._error(b"sh: -c needs a command line\n")
                    return 2
                return await self._interruptible(self._line(words[1]))
            return await self._lines()
        except _Exit as end:
            return end.code

    async def _lines(self) -> int:
        """Read lines from the input and run them until it ends."""
        while True:
            if self._terminal is not None:
                await self._out(_PROMPT)
            try:
                line = await self._next_line()
                if line is None:
                    return self._code
                self._code = await self._interruptible(self._line(line))
            except Unreadable as e:
                await self._error(f"sh: {e}\n".encode())
                self._code = 2

    async def _next_line(self) -> str | None:
        if self._terminal is None:
            return await self._input.line()
        interrupted = self._terminal.interrupted
        interrupted.clear()

        async def stopped() -> str:
            await interrupted.wait()
            return ""

        return await first_of(self._input.line(), stopped())

    async def _interruptible(self, work: Awaitable[int]) -> int:
        """The exit code of some work, which Ctrl-C ends."""
        if self._terminal is None:
            return await work
        interrupted = self._terminal.interrupted
        interrupted.clear()

        async def done() -> int:
            return await work

        async def stopped() -> int:
            await interrupted.wait()
            return _INTERRUPTED

        return await first_of(done(), stopped())

    async def _line(self, text: str) -> int:
        """Run a command line; its exit code. Raises _Exit."""
        try:
            for pipeline in parse(text):
                if (pipeline.joined == "&&" and self._code) or (pipeline.joined == "||" and not self._code):
                    continue
                self._code = await self._pipeline(pipeline)
        except Unreadable as e:
            await self._error(f"sh: {e}\n".encode())
            self._code = 2
        return self._code

    async def _pipeline(self, pipeline: Pipeline) -> int:
        commands = pipeline.commands
        if len(commands) == 1:
            return await self._command(commands[0], self._input.read, self._out, alone=True)
        pipes = [ByteQueue(_PIPE) for _ in commands[1:]]
        codes = [0] * len(commands)

        async def part(number: int) -> None:
            read = self._input.read if not number else pipes[number - 1].get
            out = self._out if number == len(commands) - 1 else _into(pipes[number])
            try:
                codes[number] = await self._command(commands[number], read, out, alone=False)
            except _Exit as end:
                codes[number] = end.code
            except _BrokenPipe:
                codes[number] = _BROKEN_PIPE
            finally:
                if number:
                    await pipes[number - 1].end()
                if number < len(commands) - 1:
                    await pipes[number].end()

        await all_of(part(number) for number in range(len(commands)))
        return codes[-1]

    async def _command(self, command: Command, read: Read, out: Write, *, alone: bool) -> int:
        error: Write = self._error
        for redirection in command.redirections:
            match redirection:
                case "</dev/null":
                    read = _nothing
                case ">/dev/null" | "1>/dev/null":
                    out = _away
                case "2>/dev/null":
                    error = _away
                case "2>&1":
                    error = out
                case _:
                    out = error
        words = list(command.words)
        changes = {}
        while words and is_assignment(words[0]):
            name, _, value = "".join(expand(words.pop(0), self._value)).partition("=")
            changes[name] = value
        line: list[str] = []
        size = 0
        for word in words:
            found = expand(word, self._value)
            size += sum(map(len, found))
            if size > MOST_EXPANDED:
                raise Unreadable(TOO_LONG)
            line += found
        if not line:
            self._set(changes)
            return 0
        builtin = await self._builtin(line, error, alone=alone)
        if builtin is not None:
            return builtin
        run_by = program(line[0])
        if run_by is None:
            await error(f"sh: {line[0][:200]}: not found\n".encode())
            return NOT_FOUND
        return await self._one(run_by, line, read, out, error, changes)

    async def _one(
        self,
        found: Program,
        line: list[str],
        read: Read,
        out: Write,
        error: Write,
        changes: dict[str, str] | None = None,
    ) -> int:
        variables = {**self._variables, **(changes or {})}
        process = Process(
            line,
            self._inside,
            variables,
            read=read,
            out=out,
            err=error,
            now=self._now,
            size=lambda: self._streams.size,
        )
        return await found(process)

    async def _builtin(self, line: list[str], error: Write, *, alone: bool) -> int | None:
        """Run what a shell does itself; None for anything else. Raises _Exit."""
        name, *rest = line
        if name == "exit":
            number = rest[0] if rest else str(self._code)
            if not number.lstrip("-").isdigit() or len(number) > 9:
                await error(f"sh: exit: bad number: {number[:100]}\n".encode())
                raise _Exit(2)
            raise _Exit(int(number))
        if name == "export":
            if alone:
                self._set(dict(pair for pair in (word.partition("=")[::2] for word in rest) if pair[1]))
            return 0
        if name == "cd":
            target = resolved(self._variables["PWD"], rest[0] if rest else "/")
            if self._inside.listed(target) is None:
                await error(f"sh: cd: can't cd to {target[:200]}: No such file or directory\n".encode())
                return 2
            if alone:
                self._variables["PWD"] = target
            return 0
        return 0 if name == ":" else None

    def _value(self, name: str) -> str:
        if name == "?":
            return str(self._code)
        return "1" if name == "$" else self._variables.get(name, "")

    def _set(self, changes: dict[str, str]) -> None:
        for name, value in changes.items():
            if name in self._variables or len(self._variables) < _MOST_VARIABLES:
                self._variables[name] = value[:MOST_BYTES]

    async def _out(self, data: bytes) -> None:
        await self._streams.write(data)
        # A client that reads as fast as this writes must not keep others from their turn.
        await asyncio.sleep(0)

    async def _error(self, data: bytes) -> None:
        await self._streams.write(data, error=True)
        await asyncio.sleep(0)


def _into(pipe: ByteQueue) -> Write:
    async def write(data: bytes) -> None:
        await pipe.put(data)
        if pipe.ended:
            raise _BrokenPipe

    return write


async def _nothing() -> bytes:
    return b""


async def _away(_: bytes) -> None:
    await asyncio.sleep(0)
