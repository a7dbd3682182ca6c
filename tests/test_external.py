"""Traces of others beside the project: each is read or imported, and replays."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome

Cli = Callable[..., Outcome]


@pytest.mark.parametrize(
    ("format", "file", "options"),
    [
        (None, "gptoss20b", ()),
        ("waste", "waste/trace_olmoe_299.jsonl", ("--expert-bytes", "3.5MB")),
        ("table", "toy/events.csv", ("--map", "token=scheduler_step,expert=requested_experts")),
        ("bigmoeonedge", "bigmoeonedge/gptoss.route.csv", ("--bytes", "3000MiB")),
    ],
)
def test_external_traces_replay(
    shared: Path, tmp_path: Path, cli: Cli, format: str | None, file: str, options: tuple[str, ...]
) -> None:
    source = shared / "traces" / "external" / file
    if not source.exists():
        pytest.skip(f"no ../shared/traces/external/{file}")
    trace = source
    if format is not None:
        trace = tmp_path / "t"
        done = cli("import", format, source, trace, *options)
        assert done.code == 0, done.err
    assert cli("validate", trace).code == 0
    done = cli("compare", trace, "-p", "none+lru", "-p", "oracle+lru", "--slots", "50%", "--no-curves", "--no-clock",
               "--json", "-q")  # fmt: skip
    assert done.code == 0, done.err
    lru, oracle = json.loads(done.out)["summary"]
    assert lru["lookups"] == lru["hits"] + lru["misses"] > 0 and oracle["misses"] <= lru["misses"]
