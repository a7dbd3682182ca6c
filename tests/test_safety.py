"""Nothing read is trusted: no code of a file runs, links stay inside, and what a trace names stays text."""

import ast
import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.dom import minidom

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Outcome

import replay
from replay.errors import InputError
from replay.trace import open_trace, write_trace

Cli = Callable[..., Outcome]
EVIL = "<script>alert(1)</script>|`x`[a](javascript:b)&\"'"
FORMULA = "=cmd|' /C calc'!A0"


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Dotted names of everything that is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_no_code_of_a_file_is_run(root: Path) -> None:
    """No pickle, eval, exec or shell anywhere but in the one module that runs the user's own policy file."""
    modules = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "subprocess", "pty", "yaml"}
    wrong = []
    for file in sorted((root / "replay").rglob("*.py")):
        tree, name = ast.parse(file.read_text()), file.relative_to(root).as_posix()
        for node in ast.walk(tree):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{name}: imports {each}" for each in imported if each.split(".")[0] in modules]
        for called, node in calls(tree):
            said = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if called in ("eval", "exec", "os.system", "os.popen") and name != "replay/evict/own.py":
                wrong.append(f"{name}: calls {called}")
            if called.endswith("torch.load") and said.get("weights_only") != "True":
                wrong.append(f"{name}: torch.load without weights_only")
            if called in ("np.load", "numpy.load") and said.get("allow_pickle", "False") != "False":
                wrong.append(f"{name}: numpy.load with pickle")
    assert wrong == []


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A trace whose every name tries something."""
    keys = [(w, layer) for w in range(12) for layer in range(2)]
    windows, layers = zip(*keys, strict=True)
    picks = [[(w * 3) % 8, (w * 3 + 1) % 8] for w, _ in keys]
    tables = {
        "windows": pa.table(
            {"window": range(12), "session": [w // 6 for w in range(12)], "phase": ["decode"] * 12, "rows": [1] * 12,
             "domain": [EVIL if w % 2 else FORMULA for w in range(12)]}
        ),
        "selections": pa.table(
            {"window": windows, "row": [0] * 24, "layer": layers, "experts": picks}
        ),
    }  # fmt: skip
    meta = {
        "model": {"name": EVIL, "layers": 2, "experts": 8, "top_k": 2}, "expert_bytes": 1000, "router": None,
        "policy": None, "engine": {"name": EVIL, "version": FORMULA, "config": {EVIL: EVIL}},
        "source": {"notes": EVIL},
    }  # fmt: skip
    write_trace(tmp_path / "trace <b>&", meta, tables)
    return tmp_path / "trace <b>&"


def test_what_a_trace_names_stays_text(evil: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "run"
    code, _, err = cli("compare", evil, "-p", "none+lru", "-p", "none+fifo", "--slots", "6", "--out", out)
    assert code == 0, err
    page = (out / "report.html").read_text()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script") == 1 and "Content-Security-Policy" in page
    text = (out / "report.md").read_text()
    assert re.search(r"(?<!\\)<", text) is None and re.search(r"(?<!\\)\]\(javascript", text) is None
    for chart in out.glob("*.svg"):
        svg = chart.read_text()
        minidom.parseString(svg)
        assert "<script" not in svg
    for line in csv.DictReader(io.StringIO((out / "summary.csv").read_text())):
        assert not any((value or "").startswith(("=", "+", "@")) for value in line.values())


def test_csv_cells_are_no_formulas(evil: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "run"
    assert cli("compare", evil, "-p", "none+lru", "--slots", "6", "--no-curves", "--out", out).code == 0
    asked = "SELECT DISTINCT domain, -1 AS n, '-x' AS d, '@y' AS e, 'plain' AS f FROM windows ORDER BY 1"
    rows = list(csv.reader(io.StringIO(cli("query", out, asked, "--csv").out)))
    assert f"'{FORMULA}" in [row[0] for row in rows] and rows[1][1:] == ["-1", "'-x", "'@y", "plain"]
    assert FORMULA in {row["domain"] for row in json.loads(cli("query", out, asked, "--json").out)}


@pytest.mark.parametrize("how", ["dots", "absolute", "link", "link of a folder"])
def test_tables_stay_inside_the_traces_folder(how: str, evil: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.parquet"
    pq.write_table(pq.read_table(evil / "windows.parquet"), secret)
    document = json.loads((evil / "trace.json").read_text())
    name = {
        "dots": "../secret.parquet",
        "absolute": str(secret),
        "link": "l.parquet",
        "link of a folder": "d/secret.parquet",
    }
    if how == "link":
        (evil / "l.parquet").symlink_to(secret)
    if how == "link of a folder":
        (evil / "d").symlink_to(tmp_path)
    document["tables"]["windows"]["file"] = name[how]
    (evil / "trace.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="a file inside the trace's folder"):
        open_trace(evil)


@pytest.mark.parametrize("name", ["layers.parquet", "extra.parquet", "summary.json"])
def test_a_runs_tables_stay_inside_the_run(name: str, evil: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "run"
    assert cli("compare", evil, "-p", "none+lru", "--slots", "6", "--no-curves", "--out", out).code == 0
    secret = tmp_path / "secret"
    pq.write_table(pa.table({"a": [1]}), secret) if name.endswith("parquet") else secret.write_text(
        '[{"a": 1}]'
    )
    (out / name).unlink(missing_ok=True)
    (out / name).symlink_to(secret)
    code, printed, err = cli("query", out, "SELECT 1")
    assert (code, printed, err.count("\n")) == (2, "", 1) and "leads out of the run's folder" in err


def test_a_policy_file_runs_only_when_it_is_named(
    evil: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python file that lies about, even one with the name of a policy or of this package, is left alone."""
    monkeypatch.chdir(tmp_path)
    for name in ("lru.py", "policy.py", "sitecustomize.py", "conftest.py"):
        (tmp_path / name).write_text("import pathlib; pathlib.Path('ran').touch()\n")
        (evil / name).write_text("import pathlib; pathlib.Path('ran').touch()\n")
    assert cli("compare", evil, "-p", "none+lru", "--slots", "6", "--no-curves").code == 0
    assert cli("validate", evil).code == 0 and not (tmp_path / "ran").exists()


def test_half_characters_in_json_are_text(evil: Path, tmp_path: Path, cli: Cli) -> None:
    file = evil / "trace.json"
    document = json.loads(file.read_text())
    document["model"]["name"] = "half \ud800 a character"
    file.write_text(json.dumps(document))
    code, _, err = cli(
        "compare", evil, "-p", "none+lru", "--slots", "6", "--no-curves", "--out", tmp_path / "run"
    )
    assert code == 0, err
    assert replay.load(tmp_path / "run").info["trace"]["model"] == "half \\ud800 a character"


def test_small_experts_show_their_bytes(evil: Path, cli: Cli) -> None:
    out = cli("compare", evil, "-p", "none+lru", "--slots", "6", "--no-curves", "--no-clock", "-q").out
    assert out.splitlines()[2].split()[-1].startswith("0.00"), out


def test_links_to_nowhere_and_loops_are_one_line(evil: Path, cli: Cli) -> None:
    (evil / "windows.parquet").unlink()
    for target in ("nowhere", "windows.parquet"):
        (evil / "windows.parquet").unlink(missing_ok=True)
        os.symlink(target, evil / "windows.parquet")
        code, out, err = cli("info", evil)
        assert (code, out, err.count("\n")) == (2, "", 1)
