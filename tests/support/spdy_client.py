"""The client's half of SPDY/3.1 frames, for tests of the server's."""

from __future__ import annotations

import struct

from services.member_sim.streams.spdy_framing import FIN, SYN_STREAM, FrameWriter, control


class ClientFrames(FrameWriter):
    """Makes the frames that clients send."""

    def opened(self, stream: int, headers: dict[str, str], *, last: bool = False) -> bytes:
        """A frame that opens a stream."""
        return control(SYN_STREAM, FIN * last, struct.pack(">IIH", stream, 0, 0) + self.packed(headers))
