"""One installation as a user runs it: started by the command, used through kubectl, looked at member by member."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec

import services.cli
from schemas.manifest import Manifest
from services.cli.common.layout import CONTROL, Installation, Layout
from tests.e2e.kubectls import current_kubectl
from tests.e2e.reading import Unread, reader_of
from tests.support.commands import run_command
from tests.support.ending import ends_with_us
from tests.support.waiting import PATIENCE, End, NotYet, Patience, end_of, explained

T = TypeVar("T")
MANIFESTS = Path(__file__).parent / "manifests"
EXAMPLES = Path(services.cli.__file__).parent / "examples"
START_SECONDS = 120.0
_JOINED = "system:serviceaccount:karmada-cluster:"
_COMMAND = "from services.cli.fleetlog import main; main()"


class Failed(NotYet):
    """A command ended with an error, or something did not come true in time."""


def until(what: str, look: Callable[[], T], seconds: float = PATIENCE, end: End | None = None) -> T:
    """The first true answer; raises Failed with what the last look saw when time is up or a process has ended."""
    patience = Patience(seconds, end)
    pause = 0.02
    while True:
        over = patience.why_over()
        seen: object
        try:
            if answer := look():
                return answer
            seen = answer
            if over:
                again, seen = explained(look)
                if again:
                    return cast("T", again)
        except NotYet as error:
            seen = error
        if over:
            raise Failed(f"{what}: {over}; last seen: {seen}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.15)


def until_equal(
    what: str, look: Callable[[], object], wanted: object, seconds: float = PATIENCE, end: End | None = None
) -> None:
    """Wait until `look` answers `wanted`; raises Failed with the last answer when time is up."""
    seen: object = None

    def same() -> bool:
        nonlocal seen
        seen = look()
        return seen == wanted

    until(f"{what}: wanted {wanted!r}", same, seconds, end)


class Kubectl:
    """kubectl (of some version) with one kubeconfig.

    Where no version is given, what has no output of interest is done without a process, which takes a tenth as long.
    """

    def __init__(self, kubeconfig: Path, program: str = "", cache: Path | None = None) -> None:
        self.kubeconfig = kubeconfig
        self._program = program or current_kubectl()
        self._in_processes = bool(program)
        self._cache = cache or kubeconfig.parent / "kubectl-cache"

    def run(self, *arguments: str, stdin: str = "", check: bool = True, namespace: str = "") -> str:
        """Output of one command; raises Failed when it ends with an error."""
        command = [self._program, f"--cache-dir={self._cache}"]
        if namespace:
            command += ["-n", namespace]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            [*command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
            check=False,
        )
        if check and done.returncode != 0:
            raise Failed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout if check else done.stdout + done.stderr

    def get(self, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """One object, None when there is none of this name; read without a process."""
        with _failing():
            return reader_of(self.kubeconfig).get(kind, name, namespace)

    def items(self, kind: str, namespace: str = "", selector: str = "") -> list[Manifest]:
        """The objects of a kind in a namespace; read without a process."""
        with _failing():
            return reader_of(self.kubeconfig).items(kind, namespace, selector)

    def names(self, kind: str, namespace: str = "", selector: str = "") -> list[str]:
        """Names of the objects of a kind in a namespace, sorted."""
        return sorted(item["metadata"]["name"] for item in self.items(kind, namespace, selector))

    def apply(self, manifest: Manifest | Path | str) -> str:
        """`kubectl apply -f` of a file or a text, or an object applied on the server; raises Failed."""
        if isinstance(manifest, Path):
            return self.run("apply", "-f", str(manifest))
        if isinstance(manifest, str) or self._in_processes:
            text = manifest if isinstance(manifest, str) else msgspec.json.encode(manifest).decode()
            return self.run("apply", "-f", "-", stdin=text)
        with _failing():
            reader_of(self.kubeconfig).apply(manifest)
        return ""

    def patch(self, kind: str, name: str, patch: Manifest, namespace: str = "") -> None:
        """`kubectl patch` with a merge patch; raises Failed."""
        if self._in_processes:
            text = msgspec.json.encode(patch).decode()
            self.run("patch", kind, name, "--type=merge", "-p", text, namespace=namespace)
            return
        with _failing():
            reader_of(self.kubeconfig).patch(kind, name, patch, namespace)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """`kubectl delete` of one object, waiting until it is gone; raises Failed."""
        if self._in_processes:
            self.run("delete", kind, name, namespace=namespace)
            return
        with _failing():
            reader = reader_of(self.kubeconfig)
            before = reader.get(kind, name, namespace)
            reader.delete(kind, name, namespace)
        uid = before["metadata"]["uid"] if before else ""
        until(f"the end of {kind} {name}", lambda: not _has_uid(self.get(kind, name, namespace), uid))


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except Unread as error:
        raise Failed(str(error)) from None


def _has_uid(found: Manifest | None, uid: str) -> bool:
    return found is not None and found["metadata"]["uid"] == uid


class Fleet:
    """A directory's installation, started and stopped by the `fleetlog` command."""

    def __init__(
        self,
        directory: Path,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        command: str = _COMMAND,
        start_seconds: float = START_SECONDS,
    ) -> None:
        """`environment` is added to that of every start; `command` is the Python that runs `fleetlog`."""
        self.layout = Layout(directory)
        self._arguments = list(arguments)
        self._command = command
        self._environment = dict(environment or {})
        self._start_seconds = start_seconds
        self._process: subprocess.Popen[str] | None = None

    @property
    def installation(self) -> Installation:
        """Ports, tokens and members."""
        loaded = self.layout.load()
        assert loaded is not None
        return loaded

    @property
    def members(self) -> list[str]:
        """Names of the member clusters."""
        return [member.name for member in self.installation.members]

    def start(self) -> Fleet:
        """Start everything and return once it is ready; raises Failed with what was printed."""
        self.layout.directory.mkdir(parents=True, exist_ok=True)
        printed = (self.layout.directory / "up.log").open("ab")
        with printed:
            self._process = subprocess.Popen(
                [sys.executable, "-c", self._command, "up", "--dir", str(self.layout.directory), *self._arguments],
                stdout=subprocess.PIPE,
                stderr=printed,
                text=True,
                start_new_session=True,
                env={**os.environ, **self._environment},
            )
        ends_with_us(self._process)
        if (line := self._line()) != "ready":
            why = end_of(self._process)() or f"it said {line!r} within {self._start_seconds:g} s"
            self.stop()
            raise Failed(f"the installation did not start: {why}\n{self.printed()}")
        return self

    def _line(self) -> str:
        assert self._process is not None
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], self._start_seconds)[0]:
            return ""
        line = out.readline()
        if not line:
            # It has closed its output: it is about to end, and has an exit code then.
            self._process.wait(PATIENCE)
        return line.strip()

    def printed(self) -> str:
        """What `up` said on its standard error."""
        return (self.layout.directory / "up.log").read_text()

    def stop(self) -> None:
        """SIGTERM, then wait until everything has ended; the data stays."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failed(f"the installation did not stop:\n{self.printed()}") from None
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def ended(self) -> int:
        """Wait for the end of `up`, which something else brings about; its exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def pid(self, name: str) -> int:
        """Process id of a running process, 0 when it is not running."""
        try:
            return int(self.layout.pid(name).read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def signal(self, name: str, number: signal.Signals) -> int:
        """Send a signal to one process, as soon as it runs; the id it has."""

        def sent() -> int:
            pid = self.pid(name)
            try:
                # Number 0 would be everybody here.
                if pid:
                    os.kill(pid, number)
            except ProcessLookupError:
                return 0
            return pid

        return until(f"a process of {name}", sent)

    def kill(self, name: str) -> int:
        """kill -9 of one process; the id it had. The supervisor starts it again."""
        return self.signal(name, signal.SIGKILL)

    def kubectl(self, cluster: str = CONTROL, program: str = "") -> Kubectl:
        """kubectl of the control plane or of a member."""
        return Kubectl(self.layout.kubeconfig(cluster), program, self.layout.directory / "kubectl-cache" / cluster)

    def karmadactl(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """What `karmadactl` says of the control plane, in a process of its own."""
        return run_command("karmadactl", *words, KUBECONFIG=str(self.layout.kubeconfig(CONTROL)), **variables)

    def said(self, *words: str) -> str:
        """What it prints; raises Failed when it ends with an error."""
        done = self.karmadactl(*words)
        if done.returncode != 0:
            raise Failed(f"karmadactl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def table(self, *words: str) -> list[list[str]]:
        """Cells of a table that it prints, header first."""
        return [line.split() for line in self.said(*words).splitlines() if line]

    def refusals(self) -> list[str]:
        """What was refused to our own services and agents, in the control plane and in members that had joined."""
        found = []
        for path in sorted((self.layout.directory / "audit").glob("*.jsonl")):
            left = False
            # The last line may still be written.
            for line in path.read_text(errors="replace").split("\n")[:-1]:
                said = msgspec.json.decode(line)
                user, place = said["user"], (said["resource"], said["name"].partition(":")[0])
                if place == ("clusterrolebindings", "karmada-controller-manager") and not said.get("refused"):
                    # Unjoining takes these rights away last, and what is on its way then is refused.
                    left = said["verb"] == "delete"
                ours = user.startswith("fleetlog:") or (_JOINED in user and not left)
                if ours and said.get("refused"):
                    found.append(f"{path.stem}: {line}")
        return found

    def failures(self) -> list[str]:
        """Lines of the services' logs that tell of bugs: tracebacks, parked keys, subjects that the log refused."""
        signs = ("Traceback (most recent call last)", '"exception"', '"key_parked"', "permissions violation")
        return [
            f"{path.stem}: {line[:1500]}"
            for path in sorted((self.layout.directory / "logs").glob("*.log"))
            for line in path.read_text(errors="replace").splitlines()
            if any(sign in line for sign in signs)
        ]


def metric(fleet: Fleet, service: str, beginning: str, label: str = "") -> float:
    """Sum of a service's metrics whose name begins so, with a label."""
    try:
        with urlopen(f"http://127.0.0.1:{fleet.installation.port(service)}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
    except HTTPError as error:
        with error:
            raise Failed(f"{service}: {error}") from None
    except OSError as error:
        raise Failed(f"{service}: {error}") from None
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginning) and label in line)
