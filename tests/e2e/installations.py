"""Installations and namespaces that last as long as a fixture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from tests.e2e.fleet import Fleet, until
from tests.e2e.kubectls import current_kubectl
from tests.e2e.reading import reader_of
from tests.e2e.space import Space


@contextmanager
def installation(
    directories: pytest.TempPathFactory,
    name: str,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Fleet]:
    """A started installation; whatever its services complain of, or are refused, fails at the end."""
    if not current_kubectl():
        pytest.skip("kubectl is not installed and Debian's package cannot be fetched")
    made = Fleet(directories.mktemp(name), arguments, environment).start()
    try:
        yield made
    finally:
        made.stop()
    assert made.failures() == []
    refused = made.refusals()
    assert not refused, "\n".join(refused)


@contextmanager
def namespace(fleet: Fleet, test: str, *, everywhere: bool = True) -> Iterator[Space]:
    """A namespace of its own for a test, present in every member unless nobody waits for that."""
    made = Space(fleet, f"t{abs(hash(test)) % 16**8:08x}")
    # Not by kubectl, which takes several times as long: what tests look at comes afterwards.
    control = reader_of(made.control.kubeconfig)
    control.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.name}})
    for member in made.member.values() if everywhere else ():
        until(f"namespace {made.name}", lambda m=member: m.get("namespace", made.name))
    yield made
    control.delete("namespace", made.name)
