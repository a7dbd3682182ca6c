"""A user's own policy file: it plays like any other, the engine stays compiled, and what is wrong is one line."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import Outcome

from replay import evict
from replay.engine.loop import run_chunk
from replay.evict.own import add_files
from replay.spec.grammar import declaration, names
from tests.test_parity import misses

EXAMPLE = Path(__file__).with_name("example_policy.py")
Cli = Callable[..., Outcome]
pytestmark = pytest.mark.usefixtures("registry")


def lives(keys: list[int], slots: int, most: int) -> int:
    """Misses of the example's rule, in plain lists: first in the list is the tail."""
    line: list[int] = []
    left: dict[int, int] = {}
    missed = 0
    for key in keys:
        if key in left:
            left[key] = min(left[key] + 1, most)
            continue
        missed += 1
        while len(line) >= slots:
            first = line.pop(0)
            if left[first] == 0:
                del left[first]
            else:
                left[first] -= 1
                line.append(first)
        line.append(key)
        left[key] = 0
    return missed


def test_the_example_plays_by_its_rule() -> None:
    assert add_files([EXAMPLE], names()) == ["lives"]
    assert add_files([EXAMPLE], names()) == ["lives"], "adding it again changes nothing"
    keys = np.random.default_rng(3).zipf(1.3, 3000) % 64
    for slots in (2, 9, 30):
        for most in (1, 3):
            assert misses(f"lives:{most}", keys, slots) == lives(keys.tolist(), slots, most)
    assert len(EXAMPLE.read_text().splitlines()) < 60


def test_the_engine_is_not_compiled_again(tmp_path: Path) -> None:
    """A new process with a new file compiles the file's steps, once, and nothing else."""
    mine = tmp_path / "mine.py"
    mine.write_text(EXAMPLE.read_text().replace('"lives"', '"mine"') + f"# {tmp_path}\n")
    code = (
        "import sys; from pathlib import Path; import replay.comparison.comparison\n"
        "from replay.evict import own, load; from replay.engine.loop import run_chunk\n"
        "from replay.spec.grammar import names\n"
        "name, = own.add_files([Path(sys.argv[1])], names()); steps = load(name)\n"
        "def fresh(f): return sum(f.stats.cache_misses.values())\n"
        "print(fresh(run_chunk), *(fresh(getattr(steps, each)) for each in ('enter', 'claim', 'victim', 'touch')))"
    )
    if not hasattr(run_chunk, "stats"):
        pytest.skip("the compiler is off")
    for expected in ("0 1 1 1 1", "0 0 0 0 0"):
        run = subprocess.run([sys.executable, "-c", code, mine], capture_output=True, text=True)
        assert run.stdout.strip() == expected, run.stderr


def test_compare_and_policies_take_the_file(cli: Cli, root: Path, tmp_path: Path) -> None:
    trace = root / "traces/e64-spec"
    arguments = (
        "--policy-file",
        EXAMPLE,
        "-p",
        "none+lives:1",
        "-p",
        "none+lru",
        "--no-clock",
        "--no-curves",
    )
    done = cli("compare", trace, *arguments, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    info = json.loads((tmp_path / "run/run.json").read_text())
    assert list(info["policy_files"]) == ["lives"]
    listed = cli("policies", "--policy-file", EXAMPLE)
    assert "a queue, hits buy lives" in listed.out
    assert declaration("lives").kind == "evict"


def test_curves_take_the_file(cli: Cli, root: Path, tmp_path: Path) -> None:
    trace = root / "traces/e64-spec"
    arguments = ("-p", "lives:1", "-p", "lru", "--grid", "200,400", "--out", tmp_path / "curves")
    refused = cli("curves", trace, *arguments)
    assert refused.code == 2 and "lives" in refused.err
    done = cli("curves", trace, "--policy-file", EXAMPLE, *arguments)
    assert done.code == 0, done.err
    assert list(json.loads((tmp_path / "curves/run.json").read_text())["policy_files"]) == ["lives"]
    found = pl.read_parquet(tmp_path / "curves/curves.parquet")
    assert set(found["policy"]) == {"lives:1", "lru"} and found["misses"].null_count() == 0


TEXT = EXAMPLE.read_text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file or directory; give a Python file"),
        ("def (", "line 1: not Python (invalid syntax"),
        ("import nowhere_at_all", "line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("raise SystemExit(0)", "line 1: SystemExit: 0"),
        ("x = 1", "holds no POLICY; write POLICY = Policy("),
        (TEXT.replace("def victim", "def victims"), "lacks the step victim; a policy has enter, claim"),
        (TEXT.replace('"lives"', '"lru"'), "the name 'lru' is taken by a policy of this program"),
        (TEXT.replace('"lives"', '"unpert1"'), "the name 'unpert1' is taken by a policy"),
        (TEXT.replace('"lives"', '"a+b"'), "POLICY.name is 'a+b'; expected a word"),
        (TEXT.replace('"evict"', '"gate"'), "a policy file adds eviction policies"),
        (TEXT.replace("@step\ndef touch", "def touch"), "touch is no step; write @step"),
        (TEXT.replace("unlink(m, s)\n", "unlink(m, s, 1)\n"), "line 47: a step does not compile: "),
        (TEXT.replace("return -1", "return nothing"), "a step does not compile: "),
    ],
)
def test_what_is_wrong_is_one_line(
    text: str | None, reason: str, cli: Cli, root: Path, tmp_path: Path
) -> None:
    if "does not compile" in reason and not hasattr(run_chunk, "stats"):
        pytest.skip("the compiler is off")
    mine = tmp_path / "mine.py"
    if text is not None:
        mine.write_text(text)
    before = dict(evict.POLICIES)
    done = cli("compare", root / "traces/e64-spec", "--policy-file", mine, "-p", "none+lives")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert f"replay: error: {mine}: " in done.err and reason in done.err
    assert before == evict.POLICIES


def test_two_files_of_one_name(tmp_path: Path, cli: Cli, root: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(TEXT + "# another\n")
    files = ("--policy-file", EXAMPLE, "--policy-file", mine)
    done = cli("compare", root / "traces/e64-spec", *files, "-p", "none+lives")
    assert done.code == 2 and f"the name 'lives' is taken by {EXAMPLE}" in done.err


def test_a_step_out_of_bounds_is_the_files(cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``NUMBA_BOUNDSCHECK=1`` raises names the file where there is one, and is a defect of this program else."""

    def stop(*arguments: object, **options: object) -> None:
        raise IndexError("index is out of bounds")

    monkeypatch.setattr("replay.comparison.comparison.play", stop)
    code, _, err = cli("compare", root / "traces/e64-moce", "-p", "none+lru", "-q")
    assert code == 3 and "a defect of this program" in err
    code, _, err = cli(
        "compare", root / "traces/e64-moce", "--policy-file", EXAMPLE, "-p", "none+lives", "-q"
    )
    assert code == 2 and err.startswith(
        f"replay: error: {EXAMPLE}: a step reached outside the arena's memory"
    )
    assert "Traceback" not in err
