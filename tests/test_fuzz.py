"""Damaged files of every format end in a result or in one line, for as long as REPLAY_FUZZ_SECONDS says (40)."""

import json
from pathlib import Path

import pytest
from reliability.fuzz import SECONDS, execute, fuzz
from reliability.guard import attempt
from reliability.mutation import damaged
from reliability.targets import TARGETS, Target
from test_import_jsonl import HEADER, edited

from replay.errors import InputError
from replay.importers import IMPORTERS
from replay.schema.trace import TRACE

BY_NAME = {target.name: target for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS, ids=list(BY_NAME))
def test_damage_is_survived(target: Target) -> None:
    found = fuzz(target, SECONDS / len(TARGETS))
    assert found.faults == []
    assert found.endings.total() >= 1 and found.endings["refused"] >= 1


def test_nothing_that_is_read_is_left_out() -> None:
    asked = {f"import {name}" for name in IMPORTERS} | {f"trace {name}" for name in TRACE}
    assert asked <= set(BY_NAME)


# what the fuzzer found once: target, and the bytes that were not refused as they have to be
FOUND: tuple[tuple[str, bytes], ...] = (
    ("import bigmoeonedge", b"# route_trace v1\n" + b'"' + b"9" * 200_000),
    ("import bigmoeonedge", b",".join(b"%d" % n for n in range(150_000))),
    ("clock", b"workers = " + b"[" * 50_000),
    ("clock", b"workers = " + b"9" * 5_000),
    ("clock", b"workers = 8\n[verify]\ncost = [1" + b"0" * 400 + b"]\n"),
    ("budget", b"slots = " + b"[" * 50_000),
    ("budget", b"slots = [[3, " + b"9" * 5_000 + b", 3]]"),
    ("file of specs", b"policies = " + b"[" * 50_000),
    ("run run.json", b"[" * 100_000),
    ("run run.json", b"{}"),
    ("run run.json", b"[]"),
    ("run summary.json", b"[3]"),
    ("recording recording.json", b'{"format": "replay-recording", "version": 1, "meta": {"source": "x"}}'),
    ("recording recording.json", b"[" * 100_000),
    (
        "recording recording.json",
        b'{"format": "replay-recording", "version": 1, "meta": {"expert_bytes": NaN}}',
    ),
    (
        "recording recording.json",
        b'{"format": "replay-recording", "version": 1, "meta": {"expert_bytes": 1e999}}',
    ),
    (
        "import jsonl",
        "".join(json.dumps(each) + "\n" for each in (HEADER, *edited(1, experts=[[[], 1], [1, 2]]))).encode(),
    ),
    ("options", b"9" * 400),
    ("options", b"9" * 5_000 + b"us"),
    ("options", b"workers=inf"),
    ("options", b"workers=nan"),
    ("options", b"1%..60%:" + b"9" * 5_000),
    ("options", "\u0664\u0664".encode()),
)


@pytest.mark.parametrize(("name", "data"), FOUND, ids=[f"{name} {n}" for n, (name, _) in enumerate(FOUND)])
def test_what_was_found_stays_mended(name: str, data: bytes) -> None:
    ending, text = execute(BY_NAME[name], data)
    assert ending == "refused", text


def test_a_stream_of_endless_sizes_is_torn_there() -> None:
    """A recording whose batch claims a body of 2^60 bytes: what was whole before it, or nothing to recover."""
    target = BY_NAME["recording selections.arrows"]
    data = target.seeds()[0]
    endings = []
    for at in range(0, len(data) - 8, 8):
        if 0 < int.from_bytes(data[at : at + 8], "little") < 4096:
            endings.append(execute(target, data[:at] + (2**60).to_bytes(8, "little") + data[at + 8 :]))
    assert len(endings) > 3 and {ending for ending, _ in endings} == {"ok", "refused"}, endings


def test_the_guard_sees_faults() -> None:
    """An exception, a hang's bell, words, a warning, and memory are faults; an InputError and a result are none."""

    def raises(problem: BaseException) -> None:
        raise problem

    assert attempt(lambda: None) == ("ok", "")
    assert attempt(lambda: raises(InputError("x: no")))[0] == "refused"
    assert attempt(lambda: raises(InputError(" \n")))[0] == "fault"
    assert attempt(lambda: raises(KeyError("x")))[0] == "fault"
    assert attempt(lambda: print("hello"))[0] == "fault"
    assert attempt(lambda: __import__("warnings").warn("x", stacklevel=1))[0] == "fault"
    if Path("/proc/self/clear_refs").exists():
        ending, text = attempt(lambda: bytearray(b"x") * (600 << 20))
        assert (ending, text[-16:]) == ("fault", " MiB more memory")


def test_damage_is_what_the_plan_says() -> None:
    data = bytes(range(64))
    assert damaged(data, [("cut", 2**15, 2**15, 0)], b"") == data[:32]
    assert damaged(data, [("flip", 0, 2**15, 0xFF)], b"")[0] == 0xFF
    assert damaged(b"a 12 b", [("number", 0, 0, 0)], b"") == b"a -1 b"
    assert damaged(data, [("drop", 0, 2**15, 0)], b"") == data[32:]
