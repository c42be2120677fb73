"""A sealed file opens with its passphrase only, and not when anything in it was changed."""

from __future__ import annotations

import random
import stat
from pathlib import Path

import pytest

from services.cli.backup.passphrases import passphrase
from services.cli.common.running import Failed
from services.cli.log.sealed_file import MAGIC, SealedReader, SealedWriter, is_sealed

RIGHT = b"correct horse"
CONTENT = random.Random(7).randbytes(700_000)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sealed") / "file"
    with SealedWriter(path, RIGHT) as file:
        for start in range(0, len(CONTENT), 10_000):
            file.write(CONTENT[start : start + 10_000])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.read_bytes()


def opened(path: Path, secret: bytes = RIGHT) -> bytes:
    with SealedReader(path, secret) as file:
        return file.readall() or b""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def test_sealed_file_opens_with_its_passphrase(place: Path, sealed: bytes) -> None:
    place.write_bytes(sealed)
    assert is_sealed(place)
    assert opened(place) == CONTENT
    assert CONTENT[:64] not in sealed


def test_wrong_passphrase_differs_from_damage(place: Path, sealed: bytes) -> None:
    place.write_bytes(sealed)
    with pytest.raises(Failed, match="does not open with this passphrase; nothing was changed"):
        opened(place, b"wrong horse")


@pytest.mark.parametrize("where", [0.3, 0.6, 0.999])
def test_a_flipped_bit_is_found(place: Path, sealed: bytes, where: float) -> None:
    changed = bytearray(sealed)
    changed[int(len(changed) * where)] ^= 1
    place.write_bytes(changed)
    with pytest.raises(Failed, match="damaged"):
        opened(place)


def test_missing_or_moved_piece_is_found(place: Path, sealed: bytes) -> None:
    begin = sealed.index(b"\n", len(MAGIC)) + 1
    pieces, at = [], begin
    while at < len(sealed):
        size = int.from_bytes(sealed[at : at + 4], "big") & ~(1 << 31)
        pieces.append(sealed[at : at + 4 + size])
        at += 4 + size
    assert len(pieces) == 3
    head, first, second, last = sealed[:begin], *pieces
    for wrong in (
        head + first + second,
        head + first + last,
        head + second + first + last,
        head + first + second + last + last,
        head + first + second[:100],
        head,
    ):
        place.write_bytes(wrong)
        with pytest.raises(Failed, match=r"cut off or damaged|goes on behind its end"):
            opened(place)


def test_a_file_that_asks_for_endless_work_is_refused(place: Path) -> None:
    place.write_bytes(MAGIC + b'{"cost":1073741824,"block_size":8,"salt":"AAAA","check":"AAAA"}\n')
    with pytest.raises(Failed, match="no backup asks for so much work"):
        opened(place)


def test_without_a_terminal_or_a_file_there_is_no_passphrase(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="give --passphrase-file FILE"):
        passphrase(None, new=True)
    file = tmp_path / "passphrase"
    file.write_text("short\n")
    with pytest.raises(Failed, match="8 characters"):
        passphrase(file, new=True)
    assert passphrase(file, new=False) == b"short"
    file.write_text("  \n")
    with pytest.raises(Failed, match="is empty"):
        passphrase(file, new=False)
