"""Records in blocks of nats-server: checksums, what is damaged, what can be mended, and compressed blocks."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.cli.log.disk import highway, records, s2
from services.cli.log.disk.records import Gap, Record

KEY = highway.block_key("S", 1)


def record(seq: int, subject: str = "s.a", headers: bytes = b"", data: bytes = b"some data") -> bytes:
    """One record as the server writes it."""
    named = subject.encode()
    body = named + (struct.pack("<I", len(headers)) + headers if headers else b"") + data
    length = records.HEAD.size + len(body) + records.CHECKSUM
    size = length | (records.WITH_HEADERS if headers else 0)
    whole = records.HEAD.pack(size, seq, 1_700_000_000_000_000_000 + seq, len(named)) + body + bytes(8)
    return whole[:-8] + highway.digest(KEY, records.hashed(whole))


def block(*seqs: int) -> bytes:
    return b"".join(record(seq, headers=b"NATS/1.0\r\nA: b\r\n\r\n" if seq % 2 else b"") for seq in seqs)


def changed(content: bytes, at: int, mask: int = 0x10) -> bytes:
    return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


def test_whole_records_have_no_gaps() -> None:
    found = list(records.walk(block(1, 2, 3, 7), KEY))
    assert [piece.seq for piece in found if isinstance(piece, Record)] == [1, 2, 3, 7]
    assert not [piece for piece in found if isinstance(piece, Gap)]


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_changed_byte_damages_one_record_only(data: st.DataObject) -> None:
    """What no checksum covers: the lengths of subject and headers."""
    content = block(1, 2, 3, 4, 5)
    start, second = len(block(1)), record(2)
    uncovered = {20, 21}
    at = data.draw(st.integers(0, len(second) - 1).filter(lambda place: place not in uncovered))
    broken = changed(content, start + at, data.draw(st.integers(1, 255)))
    found = list(records.walk(broken, KEY))
    assert [piece.seq for piece in found if isinstance(piece, Record)] == [1, 3, 4, 5]
    (gap,) = [piece for piece in found if isinstance(piece, Gap)]
    assert (gap.offset, gap.end, gap.first, gap.last) == (start, start + len(second), 2, 2)
    assert records.mended(broken[gap.offset : gap.end], KEY, 60) == second


@pytest.mark.parametrize("behind", [3, 4], ids=["whole", "damaged"])
def test_changed_length_hides_no_record_behind_it(behind: int) -> None:
    """The changed length of record 2 leads exactly to record 4; where that is damaged too, 3 is found all the same."""
    second, third, last = record(2, data=b"x" * 31), record(3, data=b"y" * 31), record(4)
    assert len(second) == len(third) == 64
    start = len(record(1))
    content = changed(record(1) + second + third + last + record(5), start, 0x40 | 0x80)
    if behind == 4:
        content = changed(content, start + 128 + 40, 0x55)
    found = list(records.walk(content, KEY))
    whole = [1, 3, 4, 5] if behind == 3 else [1, 3, 5]
    assert [piece.seq for piece in found if isinstance(piece, Record)] == whole
    gap = next(piece for piece in found if isinstance(piece, Gap))
    assert records.mended(content[gap.offset : gap.end], KEY, 60) == second


def test_damaged_neighbours_are_gaps_of_their_own() -> None:
    content = block(1, 2, 3, 4)
    for seq in (2, 3):
        content = changed(content, len(block(*range(1, seq))) + 40, 0x55)
    gaps = [piece for piece in records.walk(content, KEY) if isinstance(piece, Gap)]
    assert [(gap.first, gap.last, gap.subject) for gap in gaps] == [(2, 2, "s.a"), (3, 3, "s.a")]


def test_several_changed_bytes_cannot_be_mended() -> None:
    broken = record(2)
    for at in (-9, -11, -13):
        broken = changed(broken, len(broken) + at, 0x55)
    assert records.mended(broken, KEY, 60) is None


def test_record_cut_off_by_a_crash_holds_no_message() -> None:
    content = block(1, 2) + record(3)[:20]
    (gap,) = [piece for piece in records.walk(content, KEY, last=True) if isinstance(piece, Gap)]
    assert gap.torn
    assert records.mended(content[gap.offset :], KEY, 0) is None


def test_an_erased_record_is_a_whole_one_that_is_not_kept() -> None:
    content = block(1) + records.erased(2, 5, 60, KEY) + block(3)
    found = [piece for piece in records.walk(content, KEY) if isinstance(piece, Record)]
    assert [(piece.seq, piece.kept) for piece in found] == [(1, True), (2, False), (3, True)]


def test_chunks_are_decompressed() -> None:
    assert s2.block(b"\x05\x10hello") == b"hello"


def test_a_chunk_that_is_cut_off_is_broken() -> None:
    with pytest.raises(s2.Broken):
        s2.block(b"\x05\x10hel")


def test_a_copy_that_overlaps_itself_repeats() -> None:
    """Two letters, then eight more from two back."""
    assert s2.block(b"\x0a\x04ab\x11\x02") == b"ab" * 5
