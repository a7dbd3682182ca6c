"""Misuse: each one line that says what was expected, exit 2, no traceback, nothing left; and what is no misuse."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome
from raw_trace import healthy

import replay
from replay.trace import write_trace

Cli = Callable[..., Outcome]
HUGE = "99999999999999999999"
PLAIN = ("--no-curves", "--no-clock", "-q")

MISUSE = [
    (("compare", "SPEC", "-p", f"unpert1:k={HUGE}"), f"{HUGE} is outside 0 to 65536"),
    (("compare", "SPEC", "-p", "unpert1:k=65537"), "65537 is outside 0 to 65536"),
    (("compare", "SPEC", "-p", f"none+random:{HUGE}"), f"{HUGE} is outside 0 to 1e+18"),
    (("compare", "SPEC", "-p", "none+lru", "--start", f"warm:{HUGE}"), f"{HUGE} is more than 2147483647"),
    (("compare", "SPEC", "-p", "none+lru", "--start", "warm:x"), "'x' is not a whole number"),
    (("compare", "SPEC", "-p", "none+lru", "--start", "warm:-1"), "'-1' is not a whole number without a sign"),
    (("compare", "SPEC", "-p", "none+lru", "--prefill", f"stream:{HUGE}"), f"{HUGE} is more than 2147483647"),
    (("compare", "SPEC", "-p", "none+lru", "--prompt-hot", HUGE), "less than or equal to 2147483647"),
    (("compare", "SPEC", "-p", "none+lru", "--prompt-hot", "-1"), "greater than or equal to 0"),
    (("compare", "SPEC", "-p", "none+lru", "--threads", HUGE), "less than or equal to 1024"),
    (("compare", "SPEC", "-p", "none+lru", "--slots", HUGE), "at most 999999999999999 slots"),
    (("compare", "SPEC", "-p", "none+lru", "--slots", "0"), "whole numbers of at least 1"),
    (("compare", "SPEC", "-p", "none+lru", "--bytes", "0"), "--bytes 0: an arena holds at least 1 byte"),
    (("compare", "SPEC", "-p", "none+lru", "--grid", "1e9"), "above 0 and below 1e6"),
    (("compare", "SPEC", "-p", "none+lru", "--slots", "2"), "event that wants 61 experts; give at least 61"),
    (("compare", "SPEC", "-p", "none+lru", "--routes", "cacheprior:"), "expected cacheprior, or cacheprior:LAMBDA,J"),
    (("compare", "SPEC", "-p", "none+lru", "--routes", f"cacheprior:0.2,{HUGE}"), f"J is {HUGE}; expected"),
    (("compare", "SPEC", "-p", "none+lru", "--routes", "cacheprior:nan"), "LAMBDA is nan; expected a number"),
    (("compare", "SPEC", "-p", "router:b=1e308"), "1e+308 is outside -1e+06 to 1e+06"),
    (("compare", "MOCE", "-p", "router:b=0.5"), "add --routes rerouted, or leave the part out"),
    (("compare", ""), "./trace.json: expected a JSON object"),
    (("compare", "traces"), "name one of the traces in it: traces/e256-moce, traces/e64-moce, "),
    (("drafts", "SPEC", "--cost", ""), "--cost: '' is not a list of numbers"),
    (("drafts", "SPEC", "--env", "FOO=1"), "FOO is not a setting of draft retention; known: STRATA"),
    (("query", "README.md", "select 1"), "README.md: a file, not a folder"),
    (("verdict", "SPEC", "--baseline", "lru", "--candidate", "fifo", "--seed", HUGE), "less than or equal to"),
    (("import", "table", "README.md", "OUT", "--experts", HUGE), "less than or equal to 65536"),
    (("schema", "--write", "/proc/x"), "/proc/x/trace/windows.json: "),
    (("compare", "SPEC", "-p", "none+lru", "--out", "/proc/x"), "/proc/x: "),
    (("compare", "SPEC", "-p", "none+lru", "--out", "README.md/x"), "README.md is a file"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "reason"), MISUSE, ids=[" ".join(each[0])[:60] for each in MISUSE])
def test_misuse(
    arguments: tuple[str, ...],
    reason: str,
    cli: Cli,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(root)
    names = {"SPEC": "traces/e64-spec", "MOCE": "traces/e64-moce", "OUT": str(tmp_path / "out")}
    given = [names.get(each, each) for each in arguments]
    code, out, err = cli(
        *given, *(PLAIN[1:] if "--grid" in given else PLAIN if given[0] == "compare" else ())
    )
    assert (code, out, err.count("\n")) == (2, "", 1), (out, err)
    assert reason in err and "Traceback" not in err and ".partial" not in err
    assert list(tmp_path.iterdir()) == []


def test_no_grid_point_holds_an_event(cli: Cli, root: Path, tmp_path: Path) -> None:
    """Capacities too small for any event leave curves without rows, not a broken run."""
    out = tmp_path / "run"
    given = (
        "compare",
        root / "traces/e64-spec",
        "-p",
        "none+lru",
        "--grid",
        "0.0001",
        "--no-clock",
        "--out",
        out,
    )
    assert cli(*given).code == 0
    assert replay.load(out).curves is not None and replay.load(out).curves.is_empty()


def test_a_negative_bonus_is_said_to_be_none(root: Path) -> None:
    run = replay.compare(
        root / "traces/e64-moce", "router:b=-1+lru", routes="rerouted", clock=False, grid=None
    )
    assert any("b of router is -1: below 0 is no bonus" in each for each in run.warnings)


def test_selections_alone_compare_evictions_with_one_note(root: Path) -> None:
    shared = root.parent / "shared/traces/external/gptoss20b"
    if not shared.is_dir():
        pytest.skip("the recorded traces are not here")
    run = replay.compare(shared, clock=False, grid=None)
    assert [row["policy"] for row in run.summary] == [
        "none+lru", "none+decode2q", "none+lfu", "none+sieve", "none+belady",
    ]  # fmt: skip
    assert len(run.info["left_out"]) == 1 and "need the table candidates" in run.info["left_out"][0]


def tiny(folder: Path, **changes: object) -> Path:
    raw = healthy()
    names = [name for name in ("windows", "selections") if name in raw.tables]
    meta = (
        {name: value for name, value in raw.meta.items() if name != "policy"}
        | {"policy": None, "expert_bytes": 1000}
        | changes
    )
    write_trace(folder, meta, {name: raw.arrow(name) for name in names}, check=False)
    return folder


def test_sizes_whose_sums_would_overflow_are_refused(cli: Cli, tmp_path: Path) -> None:
    trace = tiny(tmp_path / "t", expert_bytes=2**62)
    code, out, err = cli("compare", trace, "-p", "none+lru", "--slots", "16", *PLAIN)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "bytes are more than 9223372036854775807 bytes, the most that a counter holds" in err


def test_sums_just_below_the_bound_are_exact(tmp_path: Path) -> None:
    """The largest size that is not refused: sums are what Python's own integers give."""
    trace = tiny(tmp_path / "t")
    opened = replay.open(trace)
    rows = int(opened.windows.rows.sum())
    size = (2**63 - 1) // (rows * opened.meta.top_k * opened.meta.layers)
    for factor, refused in ((1, False), (2, True)):
        there = tiny(tmp_path / f"{factor}", expert_bytes=size * factor)
        if refused:
            with pytest.raises(replay.errors.InputError, match="the most that a counter holds"):
                replay.compare(there, "none+lru", slots=16, clock=False, grid=None)
            continue
        run = replay.compare(there, "none+lru", slots=16, clock=False, grid=None)
        row = run.summary[0]
        assert row["demand_bytes"] == row["misses"] * size > 2**53
        run.save(tmp_path / "run")
        saved = json.loads((tmp_path / "run/summary.json").read_text())[0]
        assert saved["demand_bytes"] == row["demand_bytes"]


def test_a_run_that_says_nothing_is_none(cli: Cli, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert cli("compare", root / "traces/e64-spec", "-p", "none+lru", *PLAIN, "--out", out).code == 0
    whole = (out / "run.json").read_text()
    for text, reason in (
        ('{"a": 1}', "expected an object with trace"), ("[]", "expected an object with trace"),
        ("{", "not JSON"), ("[" * 100_000, "not JSON (nested too deep)"),
    ):  # fmt: skip
        (out / "run.json").write_text(text)
        code, _, err = cli("report", out)
        assert code == 2 and reason in err and err.count("\n") == 1
    (out / "run.json").write_text(whole)
    (out / "summary.json").write_text("[1]")
    assert "not the rows of a summary" in cli("report", out).err


def test_names_that_are_no_text(cli: Cli, root: Path, tmp_path: Path) -> None:
    """A folder named in another encoding: read, written, reported, queried."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        odd.mkdir()
    except OSError:
        pytest.skip("this file system wants UTF-8 names")
    trace, run = odd / os.fsdecode(b"tr\xe9"), odd / "run"
    tiny(trace)
    assert cli("info", trace).code == 0
    code, _, err = cli("compare", trace, "-p", "none+lru", "--slots", "16", "--out", run)
    assert code == 0, err
    assert "Replay of tr\\udce9" in (run / "report.html").read_text() and replay.load(run).summary
    assert cli("query", run, "SELECT count(*) AS n FROM layers", "--trace", trace, "--csv").out.startswith(
        "n"
    )
    assert cli("report", run).code == 0
    assert cli("cut", trace, odd / "cut", "--windows", "2").code == 0
    assert cli("export", "jsonl", trace, odd / "t.jsonl").code == 0
    assert cli("import", "jsonl", odd / "t.jsonl", odd / "back").code == 0


def test_control_characters_of_a_name_are_not_obeyed(cli: Cli, tmp_path: Path) -> None:
    raw = healthy()
    trace = tiny(tmp_path / "t", model=raw.meta["model"] | {"name": "evil\x1b[31m\nname"})
    for command in (("info",), ("compare", "-p", "none+lru", "--slots", "16", "--no-curves"), ("policies",)):
        code, out, err = cli(command[0], trace, *command[1:])
        assert code == 0, err
        assert "\x1b" not in out + err
