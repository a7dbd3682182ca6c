"""Sizes, shares, times and the nearest-name hint."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import CheckFailed, IdentityError, InputError, ReplayError, nearest
from replay.units import format_bytes, parse_bytes, parse_share, parse_time_us


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("123", 123),
        ("123B", 123),
        ("1.77MB", 1_770_000),
        ("1 kB", 1000),
        ("1KB", 1000),
        ("4000MiB", 4000 * 2**20),
        (" 1.5GiB ", 3 * 2**29),
        ("0.1GB", 10**8),
        ("2TiB", 2**41),
        ("0.0005kB", 0),  # half a byte: half to even
        ("0.0015kB", 2),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "MB", "-1", "-1MB", "1.5", "1.5B", "1e6", "1_000", "1,000", "4000M", "1mb", "1Mb", "inf", "nan",
     "1 2", "1..2MB", ".5MB", "9223372036854775808", "10000000TiB", "\u0661MB", "17.6%", "1.MB"],
)  # fmt: skip
def test_no_bytes(text: str) -> None:
    with pytest.raises(InputError, match="size"):
        parse_bytes(text)


@given(st.integers(0, 2**53), st.sampled_from([("kB", 1000), ("MB", 10**6), ("KiB", 1024), ("GiB", 2**30)]))
def test_bytes_are_exact(count: int, unit: tuple[str, int]) -> None:
    name, scale = unit
    if count * scale < 2**63:
        assert parse_bytes(f"{count}{name}") == count * scale
    decimal = f"{count // 1000}.{count % 1000:03d}"
    if Fraction(decimal) * scale < 2**63 - 1:
        assert parse_bytes(f"{decimal}{name}") == round(Fraction(decimal) * scale)


@pytest.mark.parametrize(("text", "share"), [("17.6%", 0.176), ("0%", 0.0), ("100%", 1.0), ("12.5 %", 0.125)])
def test_share(text: str, share: float) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize("text", ["17.6", "0.176", "101%", "-1%", "%", "", "1MB", "100.0001%"])
def test_no_share(text: str) -> None:
    with pytest.raises(InputError, match="share"):
        parse_share(text)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("80us", 80.0),
        ("80", 80.0),
        ("80µs", 80.0),
        ("80μs", 80.0),
        ("1.5ms", 1500.0),
        ("250ns", 0.25),
        ("2s", 2e6),
    ],
)
def test_time(text: str, us: float) -> None:
    assert parse_time_us(text) == us


@pytest.mark.parametrize("text", ["", "us", "-1us", "1min", "1MB", "nan", "1e3us"])
def test_no_time(text: str) -> None:
    with pytest.raises(InputError, match="time"):
        parse_time_us(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (-1_770_000, "-1.77 MB"),
        (9_994_999, "9.99 MB"),
        (9_995_000, "10.0 MB"),
        (99_949_999, "99.9 MB"),
        (99_950_000, "100 MB"),
        (999_499_999, "999 MB"),
        (999_500_000, "1.00 GB"),
        (22_585_964_544, "22.6 GB"),
        (2**63 - 1, "9.22 EB"),
    ],
)
def test_format(size: int, text: str) -> None:
    assert format_bytes(size) == text


@given(st.integers(1000, 2**63 - 1))
def test_format_is_near_and_short(size: int) -> None:
    text = format_bytes(size)
    assert len(text.split()[0].replace(".", "")) == 3
    value = parse_bytes(text) if not text.endswith(("PB", "EB")) else size
    assert abs(value - size) <= size * 0.00501


def test_exit_codes() -> None:
    assert [each.exit_code for each in (ReplayError, InputError, CheckFailed, IdentityError)] == [2, 2, 1, 3]
    assert all(issubclass(each, ReplayError) for each in (InputError, CheckFailed, IdentityError))


def test_nearest() -> None:
    assert nearest("decode2", ["lru", "decode2q"]) == "did you mean decode2q? known: lru, decode2q"
    assert nearest("LRU", ["lru"]) == "did you mean lru? known: lru"
    assert nearest("zzz", ["lru", "fifo"]) == "known: lru, fifo"
    assert (
        nearest("nonsense", ["none", "lru"]) == "known: none, lru"
    )  # no slip of it, only four letters of eight
    assert nearest("zzz", []) == "there are none"
