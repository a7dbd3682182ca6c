"""What the README shows works: its queries on the sample's run, its Python, and the links it gives."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Outcome

from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.run import load
from replay.trace import open_trace

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^ {4}# (.*)\n {4}(replay query run .*)$", README, re.MULTILINE)

PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the run that the README's first command writes."""
    trace = open_trace(root / "traces/e256-moce")
    return compare(trace, clock=load_clock(None, trace.meta.io)).save(
        tmp_path_factory.mktemp("sample") / "run"
    )


def test_the_readme_has_six_queries() -> None:
    assert len(QUERIES) == 6 == README.count("\n    replay query run ")


@pytest.mark.parametrize("question", [question for question, _ in QUERIES])
def test_every_query_answers(
    question: str, run: Path, root: Path, cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    words = shlex.split(dict(QUERIES)[question])
    code, out, err = cli(words[1], run, *words[3:], "--csv")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) > 1
    assert not any(",," in line or line.endswith(",") for line in lines), "an answer that is null is none"


def answer(question: str, run: Path, cli: Callable[..., Outcome]) -> list[dict[str, Any]]:
    """Rows of the README's query whose question begins so."""
    (query,) = (text for asked, text in QUERIES if asked.startswith(question))
    rows: list[dict[str, Any]] = json.loads(cli("query", run, shlex.split(query)[3], "--json").out)
    return rows


def test_queries_answer_their_questions(run: Path, cli: Callable[..., Outcome]) -> None:
    whole = load(run)
    at = {row["policy"]: (row["misses_per_token"], row["read_bytes_per_token"]) for row in whole.summary}
    for row in answer("which switch reads least", run, cli):
        mine = at[row["policy"]]
        beaten = any(m <= mine[0] and b < mine[1] for m, b in at.values())
        assert row["least_for_its_misses"] is not beaten
    layers = whole.layers.filter(pl.col("policy") == "none+lru")
    worst = sorted(layers.select("layer", "misses").rows(), key=lambda each: -each[1])[:5]
    assert [row["misses"] for row in answer("which five layers", run, cli)] == [each[1] for each in worst]
    assert whole.curves is not None
    half = next(row["decode_misses"] for row in whole.summary if row["policy"] == "none+lru") / 2
    table = whole.curves.filter(pl.col("layer").is_null())
    for row in answer("how many slots halve", run, cli):
        mine = table.filter(pl.col("policy") == row["policy"])
        enough = mine.filter(pl.col("misses") <= half)["capacity_slots"]
        expected = str(enough.min()) if len(enough) else f"more than {mine['capacity_slots'].max()}"
        assert row["slots"] == expected
    for row in answer("what share of the read-ahead", run, cli):
        mine = whole.layers.filter(pl.col("policy") == row["policy"])
        assert row["late_share"] == mine["late"].sum() / mine["prefetch_hits"].sum()


def test_links_lead_somewhere(root: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target


def test_its_policy_file_is_the_one_that_is_tested(root: Path) -> None:
    policy, _ = PYTHON
    assert policy == (root / "tests/example_policy.py").read_text() and policy.count("\n") < 60


def test_its_python_runs(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = PYTHON[-1]
    (tmp_path / "traces").symlink_to(root / "traces")
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # our own README
    assert (tmp_path / "run2/report.html").is_file() and (tmp_path / "hit_curves.svg").is_file()
