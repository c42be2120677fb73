"""Uids of new objects: random UUIDs, each given out once."""

import uuid

from services.apiserver.core.object_uids import new_uid


def test_uids_are_random_uuids_and_never_the_same() -> None:
    found = [new_uid() for _ in range(2000)]
    assert len(set(found)) == len(found)
    for text in found:
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert parsed.version == 4
        assert parsed.variant == uuid.RFC_4122
    # Each of the digits that are left to chance takes all its values.
    free = [at for at in range(36) if at not in (8, 13, 14, 18, 19, 23)]
    assert all({text[at] for text in found} == set("0123456789abcdef") for at in free)
    assert {text[19] for text in found} == set("89ab")
