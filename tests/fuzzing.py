"""Bad inputs for parsers: good ones with something broken in them, and random bytes."""

import re

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from whenpool import InputError

INPUTS = {"csv": 100, "jsonl": 60, "vectors": 60, "stored run": 120, "parameters": 40}
"""How many bad inputs each parser is given."""
PIECES = [
    # bytes that are no text, or that a terminal obeys; ends of lines
    b"\x00", b"\x1b[31m", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n\n", "\u2028".encode(),
    # marks of the formats
    b'"', b"\\", b'"\\ud800"', b",", b";", b":", b"{", b"}", b"[" * 5_000, b"a " * 50_000,
    # numbers and values, and what another program would run
    b"NaN", b"1e999", b"-1", b"9" * 30, b"null", b"true", b"[]", b"<script>alert(1)</script>",
]  # fmt: skip
_VALUE = re.compile(rb'"[^"\n]{0,40}"|[\w.+-]+|$')


@st.composite
def broken(draw, valid):
    """A valid input with up to four changes."""
    data = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(0, 4))):
        at, piece = draw(st.integers(0, len(data))), draw(st.sampled_from(PIECES))
        value = _VALUE.search(data, at)
        inserted, cut = data[:at] + piece + data[at:], data[:at] + data[at + draw(st.integers(1, 60)) :]
        replaced = data[: value.start()] + piece + data[value.end() :]
        data = draw(
            st.sampled_from([inserted, cut, data[:at], data.replace(b"\n", b"\r"), *[replaced] * 3])
        )
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


def hold(parser, strategy, parse, names="", expect_good=True):
    """Give a parser, a key of `INPUTS`, its bad inputs: it reads and checks them, or raises `InputError` with
    one short line that has the ``names`` in it. Some are good enough to be read, where that is expected."""
    refused, limit = [], INPUTS[parser]

    @settings(max_examples=limit, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck), phases=[Phase.generate])  # fmt: skip
    @given(strategy)
    def tried(data):
        try:
            parse(data)
        except InputError as error:
            refused.append(str(error))

    tried()
    for message in refused:
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", message)
        assert len(message) <= 2_000
        assert names in message, message[:300]
    assert len(refused) > limit // 20  # or the inputs are not bad
    assert not expect_good or len(refused) < limit
