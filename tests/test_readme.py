"""What the README shows works: its queries on the sample's run, its Python, and the links it gives."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Outcome

from replay.comparison import compare
from replay.timing import load_clock
from replay.trace import open_trace

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^ {4}# (.*)\n {4}(replay query run .*)$", README, re.MULTILINE)


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


def test_links_lead_somewhere(root: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target


def test_its_python_runs(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "traces").symlink_to(root / "traces")
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # our own README
    assert (tmp_path / "run2/report.html").is_file() and (tmp_path / "hit_curves.svg").is_file()
