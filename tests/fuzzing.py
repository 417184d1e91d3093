"""Bad inputs for parsers: good ones with something broken in them, and random bytes."""

import re
import signal
from contextlib import contextmanager

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from whenpool import InputError

INPUTS = {
    "csv": 100, "jsonl": 60, "vectors": 60, "stored run": 120, "parameters": 40,
}  # fmt: skip
"""How many bad inputs each parser is given."""
SECONDS = 20
"""Of the processor, for one input."""
PIECES = [
    # bytes that are no text, or that a terminal obeys
    b"\x00", b"\x1b[31m", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3",
    # ends of lines, and what looks like one
    b"\r", b"\r\n", b"\n", b"\n\n\n", b"\t", "\u2028".encode(), "\u202e".encode(),
    # marks of the formats
    b'"', b"'", b'""', b"\\", b"\\u0000", b'"\\ud800"', b",", b";", b"|", b":", b"=", b"+", b"{", b"}",
    # too deep, too long
    b"[" * 5_000, b'{"a":' * 5_000, b"- " * 2_000, b"(" * 3_000, b"9" * 5_000, b"x" * 200_000,
    b"a " * 50_000,
    # numbers and values
    b"NaN", b"Infinity", b".nan", b"1e999", b"-1", b"0", b"9" * 30, b"null", b"true", b"[]", b'""', b"1.5",
    # what another program would run
    b"<script>alert(1)</script>", b"../../etc/passwd", b"{0.__class__}",
]  # fmt: skip
_VALUE = re.compile(rb'"[^"\n]{0,40}"|[\w.+-]+')


@st.composite
def broken(draw, valid):
    """A valid input with up to four changes."""
    data = draw(st.sampled_from(valid))
    for _ in range(draw(st.sampled_from([0, 1, 1, 2, 3, 4]))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        to = min(len(data), at + draw(st.integers(1, 60)))
        before, part, after = data[:at], data[at:to], data[to:]
        lines, values = data.split(b"\n"), list(_VALUE.finditer(data))
        piece = draw(st.sampled_from(PIECES))
        value = values[at % len(values)] if values else re.search(rb"$", data)
        data = draw(
            st.sampled_from(
                [
                    before + bytes([draw(st.integers(0, 255))]) + data[at + 1 :],
                    before, data[:to] + data[at:], before + after, part + before + after,
                    draw(st.sampled_from([b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\x00"])) + data,
                    data.replace(b"\n", draw(st.sampled_from([b"\r", b"\r\n", b"\n\r", b"\n\n"]))),
                    b"\n".join([*lines, lines[at % len(lines)]]),
                    before + piece + data[at:],
                    # a value in the place of another, which is the likeliest to be accepted
                    *[data[: value.start()] + piece + data[value.end() :]] * 3,
                ]
            )
        )  # fmt: skip
    return data


def inputs(*valid):
    """Bytes: three of four are a valid input that was changed, the others random."""
    changed = broken(list(valid))
    return st.one_of(changed, changed, changed, st.binary(max_size=300))


def words(*valid):
    """The same as text, as a command line gives it: bytes that are no UTF-8 are surrogates."""
    return inputs(*(text.encode() for text in valid)).map(
        lambda data: data.decode("utf-8", "surrogateescape")
    )


class HangError(BaseException):
    """A parser took too long. No `Exception`, so that no parser takes it for its own."""


@contextmanager
def in_time():
    def stop(*_):
        raise HangError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def hold(parser, strategy, parse, names="", expect_good=True):
    """Give a parser, a key of `INPUTS`, its bad inputs: it reads and checks them, or raises `InputError` with
    one short line that has the ``names`` in it. Some are good enough to be read, where that is expected."""
    seen = {"tried": 0, "refused": 0}
    limit = INPUTS[parser]

    @settings(max_examples=limit, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck), phases=[Phase.generate])  # fmt: skip
    @given(strategy)
    def tried(data):
        seen["tried"] += 1
        try:
            with in_time():
                parse(data)
        except InputError as error:
            seen["refused"] += 1
            message = str(error)
            assert message.strip()
            assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", message)
            assert len(message) <= 2_000
            assert names in message, message[:300]

    tried()
    assert seen["tried"] >= limit
    assert seen["refused"] > limit // 20  # or the inputs are not bad
    assert not expect_good or seen["refused"] < seen["tried"]
