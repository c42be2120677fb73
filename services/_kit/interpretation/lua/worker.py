"""A worker process for interpreter scripts: calls from standard input, one answer each to standard output.

Started by services/_kit/interpretation/lua/pool.py as `python -m services._kit.interpretation.lua.worker SECONDS
MEMORY`. The kernel ends the process when one call has used more than SECONDS of processor time, whatever the script
does to avoid it.
"""

import os
import resource
import signal
import sys
from typing import BinaryIO, Final

from services._kit.interpretation.lua.machine import LuaMachine
from services._kit.interpretation.lua.messages import LARGEST, LENGTH, READY, LuaAnswer, LuaCall, decode_calls, frame
from services._rules.interpreter.common.interpretation import InterpretError

# Of address space, beyond what the script's own memory may grow to: interpreter, libraries, results in two forms.
_ROOM: Final = 1 << 30


def main(arguments: list[str]) -> int:
    """Serve until standard input ends."""
    seconds, memory = float(arguments[0]), int(arguments[1])
    # Ctrl-C in a terminal reaches the whole group; the parent process decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (_ROOM + memory, _ROOM + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    machine = LuaMachine(memory)
    serve(machine, sys.stdin.buffer, sys.stdout.fileno(), seconds)
    return 0


def serve(machine: LuaMachine, calls: BinaryIO, answers: int, seconds: float) -> None:
    """Answer calls in their order, each at once, so that the first unanswered one is the one that ended the process."""
    _write(answers, READY)
    while len(head := calls.read(LENGTH)) == LENGTH:
        for call in decode_calls(calls.read(int.from_bytes(head, "big"))):
            signal.setitimer(signal.ITIMER_PROF, seconds)
            answer = frame(_answer(machine, call))
            if len(answer) > LARGEST:
                # The parent would hold it several times over, beside the results of others.
                answer = frame(LuaAnswer(None, f"the script's result is larger than {LARGEST >> 20} MiB"))
            signal.setitimer(signal.ITIMER_PROF, 0)
            _write(answers, answer)


def _answer(machine: LuaMachine, call: LuaCall) -> LuaAnswer:
    try:
        return LuaAnswer(machine.evaluate(call.operation, call.script, call.arguments))
    except InterpretError as problem:
        return LuaAnswer(None, problem.what or "the script failed without a word", problem.field)
    except Exception as problem:  # noqa: BLE001 - one script must not end those of others
        return LuaAnswer(None, f"the script cannot be carried out: {type(problem).__name__}: {problem}")


def _write(to: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(to, rest) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
