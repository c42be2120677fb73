"""The channel protocol of remote commands as bytes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.member_sim.streams import channel_frames as channels
from services.member_sim.streams.channel_frames import BadFrame, Size


def test_the_best_common_version_is_chosen() -> None:
    assert channels.chosen(["v4.channel.k8s.io", "v5.channel.k8s.io"]) == channels.V5
    assert channels.chosen(["base64.channel.k8s.io", "nonsense"]) == "base64.channel.k8s.io"
    assert channels.chosen([]) == ""
    assert channels.chosen(["nonsense"]) is None


@given(st.sampled_from(channels.VERSIONS), st.integers(0, 4), st.binary(max_size=200))
def test_what_is_framed_is_unframed(version: str, channel: int, data: bytes) -> None:
    assert channels.unframed(version, channels.framed(version, channel, data)) == (channel, data)


@pytest.mark.parametrize(
    ("version", "message"),
    [(channels.V4, b""), ("base64.channel.k8s.io", b"x"), ("v4.base64.channel.k8s.io", b"0***")],
)
def test_a_message_without_channel_is_refused(version: str, message: bytes) -> None:
    with pytest.raises(BadFrame):
        channels.unframed(version, message)


def test_sizes_are_read_and_bounded() -> None:
    assert channels.size_of(b'{"Width":100,"Height":0}') == Size(100, 1)
    for wrong in (b"", b"[]", b'{"Width":"x"}'):
        with pytest.raises(BadFrame):
            channels.size_of(wrong)


def test_the_end_is_a_status_with_the_exit_code() -> None:
    assert msgspec.json.decode(channels.final(channels.V4, 0))["status"] == "Success"
    status = msgspec.json.decode(channels.final(channels.V5, 3))
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert msgspec.json.decode(channels.final(channels.V4, 0, "broken"))["message"] == "broken"


def test_old_versions_end_with_a_text_or_nothing() -> None:
    assert channels.final("channel.k8s.io", 0) == b""
    assert b"exit status 3" in channels.final("channel.k8s.io", 3)
