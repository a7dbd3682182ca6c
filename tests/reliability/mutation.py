"""How the fuzzer damages a file: a plan of small steps that hypothesis draws and shrinks."""

import re
from typing import Any

from hypothesis import strategies as st

NUMBERS = (
    b"-1",
    b"0",
    b"1",
    b"2",
    b"7",
    b"255",
    b"256",
    b"65535",
    b"65536",
    b"2147483647",
    b"2147483648",
    b"4294967295",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"1e308",
    b"1e999",
    b"-0.0",
    b"0.5",
    b"nan",
    b"NaN",
    b"inf",
    b"Infinity",
    b"null",
    b"true",
    b'"a"',
    b"[]",
    b"{}",
    b"[[1]]",
    b"9" * 400,
    b"",
)
CHUNKS = (
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0\0\0\0\x80",
    b"\xff\xff\xff\x7f",
    b"\n",
    b"\r\n",
    b",",
    b'"',
    b"[",
    b"{",
    b"}",
    b"#",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"PAR1",
    b"-",
    b" " * 300,
    b"0" * 300,
    b"\x80\x04.",
)
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

STEPS = ("flip", "cut", "drop", "insert", "repeat", "move", "splice", "number", "number", "number")

Step = tuple[str, int, int, int]
plans: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(STEPS), st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1), st.integers(0, 255)
    ),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, plan: list[Step], other: bytes) -> bytes:
    """Apply a plan.

    Parameters
    ----------
    data : bytes
        A healthy file.
    plan : list of step
        A step's name, two places as shares of the length in 1/65536, and a byte.
    other : bytes
        Another healthy file, to splice from.
    """
    for name, first, second, value in plan:
        a, b = sorted((len(data) * first >> 16, len(data) * second >> 16))
        b = min(b, a + 4096)
        data = _step(data, name, a, b, value, other, first)
        if len(data) > 2**20:
            return data[: 2**20]
    return data


def _step(data: bytes, name: str, a: int, b: int, value: int, other: bytes, place: int) -> bytes:
    if name == "flip":
        return data[:a] + bytes([data[a] ^ (value or 1)]) + data[a + 1 :] if data else data
    if name == "cut":
        return data[:a]
    if name == "drop":
        return data[:a] + data[b:]
    if name == "insert":
        return data[:a] + CHUNKS[value % len(CHUNKS)] + data[a:]
    if name == "repeat":
        return data[:b] + data[a:b] * (1 + value % 8) + data[b:]
    if name == "move":
        return data[:a] + data[b:] + data[a:b]
    if name == "splice":
        at = len(other) * place >> 16
        return data[:a] + other[at : at + 8 * value] + data[b:]
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    match: Any = found[len(found) * place >> 16]
    return data[: match.start()] + NUMBERS[value % len(NUMBERS)] + data[match.end() :]
