"""Packs objects of one kind: Zstandard with a dictionary that is learned from the first of them, and again later.

Objects of a kind repeat each other's words: with a dictionary a pod takes a tenth of its JSON, and each is read alone.
"""

from __future__ import annotations

import random
from typing import Final

import zstandard

_LEVEL: Final = 3
_DICTIONARY: Final = 32 << 10
_SAMPLES: Final = 200
_LARGEST_SAMPLE: Final = 16 << 10
_LEARN_AT: Final = (100, 5_000, 100_000)
"""Numbers of packed objects at which a dictionary is learned: what comes later may look different."""
_LARGEST: Final = 64 << 20


class Packing:
    """Packs and unpacks; what was packed before a dictionary was learned stays readable."""

    def __init__(self) -> None:
        self._packers = [_packer(None)]
        self._unpackers = [zstandard.ZstdDecompressor()]
        self._samples: list[bytes | bytearray | memoryview] = []
        self._packed = 0
        self._random = random.Random(0)

    def pack(self, data: bytes) -> bytes:
        """Fewer bytes for the same; the first says which dictionary they need."""
        self._sample(data)
        number = len(self._packers) - 1
        return bytes((number,)) + self._packers[number].compress(data)

    def unpack(self, packed: bytes) -> bytes:
        """What was packed."""
        return self._unpackers[packed[0]].decompress(memoryview(packed)[1:], max_output_size=_LARGEST)

    def _sample(self, data: bytes) -> None:
        """Keep a fair choice of all objects so far, and learn from it when there are many more than before."""
        if len(self._packers) > len(_LEARN_AT):
            return
        self._packed += 1
        if len(data) <= _LARGEST_SAMPLE:
            if len(self._samples) < _SAMPLES:
                self._samples.append(data)
            elif (place := self._random.randrange(self._packed)) < _SAMPLES:
                self._samples[place] = data
        if self._packed >= _LEARN_AT[len(self._packers) - 1]:
            self._learn()

    def _learn(self) -> None:
        dictionary = _dictionary(self._samples)
        self._packers.append(_packer(dictionary))
        self._unpackers.append(zstandard.ZstdDecompressor(dict_data=dictionary))
        if len(self._packers) > len(_LEARN_AT):
            self._samples.clear()


def _dictionary(samples: list[bytes | bytearray | memoryview]) -> zstandard.ZstdCompressionDict:
    try:
        found = zstandard.train_dictionary(_DICTIONARY, samples)
    except zstandard.ZstdError:
        # Too few or too much alike to be learned from: the text itself serves.
        text = b"".join(samples)[-_DICTIONARY:]
        found = zstandard.ZstdCompressionDict(text, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    found.precompute_compress(level=_LEVEL)
    return found


def _packer(dictionary: zstandard.ZstdCompressionDict | None) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary, write_checksum=False, write_dict_id=False)
