"""Dirty keys of a service that ranks them come out by rank, then by age; an urgent one overtakes those that wait."""

from __future__ import annotations

import random

from services._kit.runtime.projection import Cause, PriorityKeys


def ranked(**ranks: float) -> PriorityKeys[str]:
    keys: PriorityKeys[str] = PriorityKeys(lambda key: ranks[key])
    for key in ranks:
        keys[key] = Cause()
    return keys


def test_smallest_rank_comes_first_then_the_oldest_key() -> None:
    assert list(ranked(late=0, urgent=-5, also_urgent=-5, early=0)) == ["urgent", "also_urgent", "late", "early"]


def test_going_through_it_takes_nothing_out() -> None:
    keys = ranked(a=2, b=1, c=3)
    first = iter(keys)
    assert next(first) == "b"
    del first
    assert list(keys) == ["b", "a", "c"]
    assert len(keys) == 3


def test_what_was_taken_out_comes_back_with_its_new_rank_only() -> None:
    ranks = {"a": 1.0, "b": 2.0}
    keys: PriorityKeys[str] = PriorityKeys(lambda key: ranks[key])
    for key in ranks:
        keys[key] = Cause()
    keys.pop("a")
    ranks["a"] = 3.0
    keys["a"] = Cause()
    assert list(keys) == ["b", "a"]


def test_a_rank_that_changes_while_a_key_waits_is_not_heeded() -> None:
    ranks = {"a": 1.0, "b": 2.0}
    keys: PriorityKeys[str] = PriorityKeys(lambda key: ranks[key])
    for key in ranks:
        keys[key] = Cause()
    ranks["b"] = 0.0
    keys["b"] = Cause(attempts=7)
    assert list(keys) == ["a", "b"]
    assert keys["b"].attempts == 7


def test_many_keys_in_and_out_keep_their_order() -> None:
    chance = random.Random(7)
    ranks: dict[int, float] = {}
    keys: PriorityKeys[int] = PriorityKeys(lambda key: ranks[key])
    age: dict[int, int] = {}
    for number in range(3000):
        key = chance.randrange(400)
        if key in keys:
            if chance.random() < 0.7:
                del keys[key]
                del age[key]
        else:
            ranks[key] = chance.randrange(5)
            keys[key] = Cause()
            age[key] = number
    assert list(keys) == sorted(age, key=lambda key: (ranks[key], age[key]))
    keys.clear()
    assert list(keys) == []
