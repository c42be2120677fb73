"""HighwayHash with 64 bits, which nats-server puts behind every stored message.

Slow beside compiled code (some megabytes in ten seconds): only blocks that the server itself found damaged are gone
through with it.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Final

_MASK: Final = (1 << 64) - 1
_LOW: Final = (1 << 32) - 1
_MUL0: Final = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MUL1: Final = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_PACKET: Final = 32
_LANES: Final = struct.Struct("<4Q")

State = tuple[int, ...]
"""Four lanes each of v0, v1, mul0 and mul1."""


def block_key(stream: str, index: int) -> bytes:
    """The key of the checksums in one block of a stream."""
    return sha256(f"{stream}-{index}".encode()).digest()


def begin(key: bytes) -> State:
    """The state before the first byte; the key has 32."""
    lanes = _LANES.unpack(key)
    v0 = tuple(mul ^ lane for mul, lane in zip(_MUL0, lanes, strict=True))
    v1 = tuple(mul ^ _swapped(lane) for mul, lane in zip(_MUL1, lanes, strict=True))
    return (*v0, *v1, *_MUL0, *_MUL1)


def digest(key: bytes, data: bytes) -> bytes:
    """The hash of some bytes, eight of them."""
    return end(absorb(begin(key), data), data)


def absorb(state: State, data: bytes) -> State:
    """The state after all whole packets of some bytes."""
    for lanes in _LANES.iter_unpack(data[: len(data) - len(data) % _PACKET]):
        state = _update(state, *lanes)
    return state


def end(state: State, data: bytes) -> bytes:
    """The hash of bytes whose whole packets were absorbed."""
    rest = data[len(data) - len(data) % _PACKET :]
    if rest:
        state = _remainder(state, rest)
    for _ in range(4):
        v0 = state[:4]
        state = _update(state, *(_swapped(v0[lane]) for lane in (2, 3, 0, 1)))
    return ((state[0] + state[4] + state[8] + state[12]) & _MASK).to_bytes(8, "little")


def _swapped(lane: int) -> int:
    return (lane >> 32) | ((lane & _LOW) << 32)


def _remainder(state: State, rest: bytes) -> State:
    """Take in fewer bytes than a packet has."""
    size = len(rest)
    v0 = tuple((lane + (size << 32) + size) & _MASK for lane in state[:4])
    v1 = tuple(_rotated(lane >> 32, size) << 32 | _rotated(lane & _LOW, size) for lane in state[4:8])
    whole, odd = size & ~3, size & 3
    packet = bytearray(_PACKET)
    packet[:whole] = rest[:whole]
    if size & 16:
        packet[28:32] = rest[size - 4 : size]
    elif odd:
        packet[16], packet[17], packet[18] = rest[whole], rest[whole + (odd >> 1)], rest[whole + odd - 1]
    return _update((*v0, *v1, *state[8:]), *_LANES.unpack(packet))


def _rotated(half: int, count: int) -> int:
    return ((half << count) | (half >> (32 - count))) & _LOW


def _update(state: State, a0: int, a1: int, a2: int, a3: int) -> State:
    """Mix one packet of four lanes into the state; written out, because a loop costs twice as much."""
    v00, v01, v02, v03, v10, v11, v12, v13, m00, m01, m02, m03, m10, m11, m12, m13 = state
    v10 = (v10 + m00 + a0) & _MASK
    v11 = (v11 + m01 + a1) & _MASK
    v12 = (v12 + m02 + a2) & _MASK
    v13 = (v13 + m03 + a3) & _MASK
    m00 ^= (v10 & _LOW) * (v00 >> 32)
    m01 ^= (v11 & _LOW) * (v01 >> 32)
    m02 ^= (v12 & _LOW) * (v02 >> 32)
    m03 ^= (v13 & _LOW) * (v03 >> 32)
    v00 = (v00 + m10) & _MASK
    v01 = (v01 + m11) & _MASK
    v02 = (v02 + m12) & _MASK
    v03 = (v03 + m13) & _MASK
    m10 ^= (v00 & _LOW) * (v10 >> 32)
    m11 ^= (v01 & _LOW) * (v11 >> 32)
    m12 ^= (v02 & _LOW) * (v12 >> 32)
    m13 ^= (v03 & _LOW) * (v13 >> 32)
    v00, v01 = (v00 + _even(v10, v11)) & _MASK, (v01 + _odd(v10, v11)) & _MASK
    v02, v03 = (v02 + _even(v12, v13)) & _MASK, (v03 + _odd(v12, v13)) & _MASK
    v10, v11 = (v10 + _even(v00, v01)) & _MASK, (v11 + _odd(v00, v01)) & _MASK
    v12, v13 = (v12 + _even(v02, v03)) & _MASK, (v13 + _odd(v02, v03)) & _MASK
    return v00, v01, v02, v03, v10, v11, v12, v13, m00, m01, m02, m03, m10, m11, m12, m13


def _even(v0: int, v1: int) -> int:
    """Bytes of two lanes shuffled, for the first of two."""
    return (
        (((v0 & 0xFF000000) | (v1 & 0xFF00000000)) >> 24)
        | (((v0 & 0xFF0000000000) | (v1 & 0xFF000000000000)) >> 16)
        | (v0 & 0xFF0000)
        | ((v0 & 0xFF00) << 32)
        | ((v1 & 0xFF00000000000000) >> 8)
        | ((v0 & 0xFF) << 56)
    )


def _odd(v0: int, v1: int) -> int:
    """Bytes of two lanes shuffled, for the second of two."""
    return (
        (((v1 & 0xFF000000) | (v0 & 0xFF00000000)) >> 24)
        | (v1 & 0xFF0000)
        | ((v1 & 0xFF0000000000) >> 16)
        | ((v1 & 0xFF00) << 24)
        | ((v0 & 0xFF000000000000) >> 8)
        | ((v1 & 0xFF) << 48)
        | (v0 & 0xFF00000000000000)
    )
