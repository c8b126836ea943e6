"""Messages over a pipe: what is sent arrives, whatever its size, and an end in the middle is an end."""

import io
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.runtime import messages

CONTENTS = st.dictionaries(st.text(max_size=4), st.binary(max_size=300), max_size=4)


def sent(*given_):
    stream = io.BytesIO()
    for message in given_:
        messages.send(stream, message)
    return stream.getvalue()


def reader(raw):
    return io.BufferedReader(io.BytesIO(raw), buffer_size=16)


@given(CONTENTS)
def test_contents_arrive_as_they_were(contents):
    load, outputs = messages.Load(messages.views(contents)), messages.Outputs(messages.views(contents))
    assert messages.receive_request(reader(sent(load))) == load
    assert messages.receive_reply(reader(sent(outputs)), messages.Space()) == outputs


def test_messages_arrive_one_by_one_and_then_there_are_none():
    given_ = [messages.Open(3), messages.Load(messages.views({"a": b"123", "b": b""})), messages.Run(7)]
    stream = reader(sent(*given_))
    assert [messages.receive_request(stream) for _ in given_] == given_
    assert messages.receive_request(stream) is None


@pytest.mark.parametrize("missing", range(1, 60))
def test_a_message_that_breaks_off_is_none(missing):
    raw = sent(messages.Outputs(messages.views({"c": bytes(20), "d": bytes(16)})))
    assert len(raw) > 60
    assert messages.receive_reply(reader(raw[:-missing]), messages.Space()) is None


def test_contents_larger_than_a_pipe_pass_through_it():
    contents = messages.views({"c": os.urandom(3 << 20), "d": os.urandom(16)})
    there, here = os.pipe()
    with os.fdopen(there, "rb") as stream, os.fdopen(here, "wb") as end:
        thread = threading.Thread(target=messages.send, args=(end, messages.Outputs(contents)))
        thread.start()
        assert messages.receive_reply(stream, messages.Space()) == messages.Outputs(contents)
        thread.join()


def test_contents_of_replies_share_memory_and_those_of_requests_do_not():
    first, second = messages.views({"a": b"1234"}), messages.views({"a": b"5678"})
    space = messages.Space()
    stream = reader(sent(messages.Outputs(first), messages.Outputs(second)))
    one, two = messages.receive_reply(stream, space), messages.receive_reply(stream, space)
    assert bytes(one.contents["a"]) == bytes(two.contents["a"]) == b"5678"
    stream = reader(sent(messages.Load(first), messages.Load(second)))
    one, two = messages.receive_request(stream), messages.receive_request(stream)
    assert (bytes(one.contents["a"]), bytes(two.contents["a"])) == (b"1234", b"5678")
