"""The command line: help, errors in one line with their exit codes, and the commands policies and query."""

import csv
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from conftest import Outcome

import replay
import replay.cli
from replay.errors import CheckFailed, IdentityError, InputError

Cli = Callable[..., Outcome]
NAMES = [name for name, _, _ in replay.cli.COMMANDS]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Callable[..., Outcome]:
    """Return a function that runs a command which raises the given exception."""

    def run(problem: BaseException | None, *arguments: object) -> Outcome:
        def command(count: int = 0) -> None:
            print("some output")
            if problem is not None:
                raise problem

        module = type(sys)("probe_command")
        module.command = command  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "probe_command", module)
        monkeypatch.setattr(replay.cli, "COMMANDS", (("probe", "probe_command", "command"),))
        return cli("probe", *arguments)

    return run


# --- help ------------------------------------------------------------------------------------------


def test_version(cli: Cli) -> None:
    assert cli("--version") == Outcome(0, f"replay {replay.__version__}\n", "")


def test_help_lists_every_command(cli: Cli) -> None:
    code, out, err = cli("--help")
    assert (code, err) == (0, "")
    for name in NAMES:
        assert (f"\n  {name} " in out) == (name not in replay.cli.HIDDEN)
    assert cli() == (code, out, err)
    assert cli("-h") == (code, out, err)


@pytest.mark.parametrize("name", NAMES)
def test_every_commands_help_has_an_example(name: str, cli: Cli) -> None:
    code, out, err = cli(name, "--help")
    assert (code, err) == (0, "")
    if "\nCommands:" in out:  # a group: its commands have the examples
        return
    assert f"  replay {name}" in out.partition("Examples:")[2]
    assert "----" not in out and "Parameters" not in out


def test_help_groups_commands_by_task(cli: Cli) -> None:
    out = cli("--help").out
    titles = [title for title, _ in replay.cli.GROUPS]
    assert [line[:-1] for line in out.splitlines() if line[:-1] in titles] == titles
    placed = [name for _, names in replay.cli.GROUPS for name in names]
    assert len(placed) == len(set(placed))
    assert (
        out.index("\nReplay:")
        < out.index("\n  compare ")
        < out.index("\nRead a run:")
        < out.index("\n  query ")
    )
    assert set(NAMES) - set(placed) <= {*replay.cli.HIDDEN, "schema"}, "give the new command its group"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("com", ["compare"]),
        ("compare --sc", ["--scope"]),
        ("compare --scope ", ["global", "layer"]),
        ("compare -p unpert1+lf", ["unpert1+lfu", "unpert1+lfuda"]),
        ("compare -p unpert", ["unpert0", "unpert1"]),
        ("compare --routes re", ["recorded", "rerouted"]),
    ],
)
def test_a_shell_completes(typed: str, expected: list[str]) -> None:
    words = f"replay {typed}"
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_REPLAY_COMPLETE": "complete_bash",
    }
    done = run("ignored", stdout=subprocess.PIPE, env={**os.environ, **asked})
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(done.stdout.decode().split()) == expected


def test_the_completion_script(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_REPLAY_COMPLETE", "source_bash")
    code, out, err = cli("ignored")
    assert (code, err) == (0, "") and "_REPLAY_COMPLETE=complete_bash" in out


def test_commands_are_registered_once() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(module.startswith("replay.cli.") for _, module, _ in replay.cli.COMMANDS)


def test_as_a_module() -> None:
    run = [sys.executable, "-m", "replay", "--version"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.startswith("replay ")


# --- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["polices"], "no such command 'polices'; did you mean policies?"),
        (["zzz"], "no such command 'zzz'; known: "),
        (["--zzz"], "; see `replay --help`"),
        (["policies", "--jsn"], "--jsn"),
        (["policies", "-p"], "option '-p' requires an argument; see `replay "),
        (["query"], "missing argument"),
        (["query", "a", "b", "c"], "unexpected extra argument"),
    ],
)
def test_misuse_is_one_line_and_exit_2(arguments: list[str], reason: str, cli: Cli) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("replay: error: ") and err.count("\n") == 1
    assert reason in err


@pytest.mark.parametrize(
    ("problem", "code", "line"),
    [
        (InputError("trace.json: no"), 2, "trace.json: no"),
        (InputError("one\ntwo"), 2, "one two"),
        (CheckFailed("it differs"), 1, "it differs"),
        (IdentityError("hits + misses"), 3, "hits + misses"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (EOFError(), 130, "interrupted"),
        (MemoryError(), 2, "out of memory; replay fewer policies or capacities at once"),
        (
            OSError(errno.ENOSPC, "No space left on device", "out/layers.parquet"),
            2,
            "out/layers.parquet: No space left on device; free space or write elsewhere",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "x"),
            2,
            "x: Permission denied; check the permissions",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory"),
            2,
            "No such file or directory; check the path",
        ),
        (OSError("odd"), 2, "odd"),
    ],
)
def test_exceptions_become_one_line(
    problem: BaseException, code: int, line: str, probe: Callable[..., Outcome]
) -> None:
    got = probe(problem)
    assert got.code == code
    assert got.err.strip() == f"replay: error: {line}"


def test_a_defect_shows_where_it_is(probe: Callable[..., Outcome]) -> None:
    code, _, err = probe(ZeroDivisionError("oh"))
    assert code == 3
    assert "Traceback" in err
    assert err.endswith("replay: error: a defect of this program (ZeroDivisionError); please report it\n")


def test_exit_codes_of_a_command(probe: Callable[..., Outcome]) -> None:
    assert probe(None).code == 0
    assert probe(typer.Exit(1)).code == 1
    assert "invalid value for '--count'" in probe(None, "--count", "x").err


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "replay", *arguments], stderr=subprocess.PIPE, **options)


def test_a_full_disk_behind_stdout() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    with full.open("w") as out:
        done = run("policies", stdout=out)
    assert done.returncode == 2
    assert done.stderr == b"replay: error: No space left on device; free space or write elsewhere\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = run("policies", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_control_c() -> None:
    script = (
        "import sys, time, replay.cli as c; "
        "c.build = lambda: (print(flush=True), time.sleep(60)); sys.exit(c.main())"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=10)
    assert (child.returncode, err) == (130, b"replay: error: interrupted\n")


# --- policies --------------------------------------------------------------------------------------


def test_policies_lists_every_one(cli: Cli) -> None:
    from replay.spec.grammar import names

    code, out, err = cli("policies", "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "")
    assert [row["policy"] for row in rows] == list(names())
    by_name = {row["policy"]: row for row in rows}
    options = {"k": 6, "p": 3, "b": 0.85, "r1": 0.0, "touch": False, "guess": None, "spare": None}
    assert by_name["route"]["options"] == options
    assert by_name["unpert1"]["needs"] == {"C": "candidate scores"}
    assert by_name["oracle"]["switches"] is None
    table = cli("policies").out
    for name in names():
        assert f"\n{name} " in table
    assert "STRATA_METAL_PREFETCH_UNPERT=0" in table


def test_policies_of_a_trace(cli: Cli, shared: Path) -> None:
    code, out, _ = cli("policies", shared / "traces/external/gptoss20b", "--json")
    rows = {row["policy"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["lru"]["runs"] and rows["oracle"]["runs"]
    assert not rows["unpert1"]["runs"]
    assert rows["unpert1"]["lacking"] == "needs the table candidates"
    assert "lacks candidates" in cli("policies", shared / "traces/external/gptoss20b").out


def test_policies_resolve_on_a_trace(cli: Cli, shared: Path) -> None:
    trace = shared / "traces/recorded/e64-plain"
    code, out, _ = cli("policies", trace, "-p", "unpert0", "-p", "unpert1", "--json")
    assert code == 0
    got = json.loads(out)
    assert got["policies"][0]["values"]["unpert0"]["b"] == 0.0
    assert got["policies"][0]["origins"]["unpert0"]["b"] == "router"
    assert got["same_by_construction"] == [["unpert0", "unpert1"]]


def test_policies_explains_specs_and_switches(cli: Cli) -> None:
    code, out, _ = cli("policies", "-p", "route:p=3", "--env", "STRATA_METAL_PREFETCH_UNPERT=0")
    assert code == 0
    assert "route k=6 (default) p=3 (spec) b=0.85 (default)" in out
    assert "switches: STRATA_METAL_PREFETCH_UNPERT=0" in out
    assert "the same by construction: route:p=3, unpert0" in out
    assert "the engine has no such policy" in cli("policies", "-p", "oracle").out


def test_policies_refusals(cli: Cli, tmp_path: Path) -> None:
    assert "did you mean unpert1?" in cli("policies", "-p", "unpert2").err
    assert "did you mean STRATA_METAL_DECODE_2Q?" in cli("policies", "--env", "STRATA_METAL_DECODE_2=1").err
    code, out, err = cli("policies", tmp_path / "nowhere")
    assert (code, out) == (2, "") and err.count("\n") == 1


# --- query -----------------------------------------------------------------------------------------


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Write a folder that looks like a run's."""
    folder = tmp_path / "a [run] *"
    folder.mkdir()
    layers = {"policy": ["lru", "lru", "decode2q"], "layer": [0, 1, 0], "misses": [5, 7, 2]}
    pq.write_table(pa.table(layers), folder / "layers.parquet")
    pq.write_table(pa.table({"window": [0, 1], "rows": [1, 4]}), folder / "windows.parquet")
    curves = {"hit_ratio": pa.array([0.5, None, float("nan")]), "score": pa.array([1, 2, 3], pa.float16())}
    pq.write_table(pa.table(curves), folder / "curves.parquet")
    (folder / "summary.json").write_text("{}")
    return folder


SUMS = "SELECT policy, sum(misses) AS misses FROM layers GROUP BY policy ORDER BY misses"


def test_query(cli: Cli, tables: Path) -> None:
    assert cli("query", tables, SUMS) == Outcome(
        0, "policy    misses\n--------  ------\ndecode2q       2\nlru           12\n", ""
    )


def test_query_json_and_csv(cli: Cli, tables: Path) -> None:
    assert json.loads(cli("query", tables, SUMS, "--json").out) == [
        {"policy": "decode2q", "misses": 2},
        {"policy": "lru", "misses": 12},
    ]
    assert list(csv.reader(io.StringIO(cli("query", tables, SUMS, "--csv").out))) == [
        ["policy", "misses"],
        ["decode2q", "2"],
        ["lru", "12"],
    ]
    odd = "SELECT hit_ratio, score, 0.25 AS d, [score] AS l, {x: score} AS s, DATE '2026-01-02' AS t FROM curves"
    first, second, third = json.loads(cli("query", tables, odd, "--json").out)
    assert first == {
        "hit_ratio": 0.5,
        "score": 1.0,
        "d": 0.25,
        "l": [1.0],
        "s": {"x": 1.0},
        "t": "2026-01-02",
    }
    assert second["hit_ratio"] is None and third["hit_ratio"] is None


def test_query_lists_the_tables(cli: Cli, tables: Path) -> None:
    out = cli("query", tables).out
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["curves", "hit_ratio", "DOUBLE"],
        ["curves", "score", "FLOAT"],
        ["layers", "policy", "VARCHAR"],
        ["layers", "layer", "BIGINT"],
        ["layers", "misses", "BIGINT"],
        ["windows", "window", "BIGINT"],
        ["windows", "rows", "BIGINT"],
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW layers",
        "INSERT INTO layers VALUES ('x', 1, 2)",
        "CREATE TABLE t AS SELECT 1",
        "COPY layers TO '{here}/copy.csv'",
        "EXPORT DATABASE '{here}/copy'",
        "ATTACH '{here}/other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_parquet('{here}/layers.parquet')",
        "SELECT * FROM '{here}/layers.parquet'",
        "SELECT * FROM read_csv('{here}/summary.json')",
        "SELECT * FROM read_text('{here}/summary.json')",
        "SELECT * FROM glob('{here}/*')",
        "SELECT * FROM folder",
        "SELECT * FROM sniff_csv('{here}/summary.json')",
        "WITH x AS (SELECT 1) INSERT INTO layers SELECT * FROM x",
        "EXPLAIN ANALYZE COPY layers TO '{here}/copy.csv'",
        "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
        "PRAGMA enable_profiling",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "SELECT getenv('HOME')",
        "SELECT * FROM parquet_metadata('{here}/layers.parquet')",
        "SELECT * FROM duckdb_extensions() WHERE install_path = 'x' OR getvariable('x') = load_aws_credentials()",
        "USE memory",
        "SET VARIABLE x = 1",
        "CHECKPOINT",
        "BEGIN",
        "VACUUM",
    ],
)
def test_query_only_reads_the_tables(sql: str, cli: Cli, tables: Path) -> None:
    before = sorted(tables.parent.rglob("*"))
    code, out, err = cli("query", tables, sql.replace("{here}", str(tables)))
    assert (code, out) == (2, ""), sql
    assert err.startswith("replay: error: query: ") and err.count("\n") == 1
    assert sorted(tables.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM layrs", "tables: curves, layers, windows"),
        ("SELECT nope FROM layers", "nope"),
        ("SELECT window FROM windows", 'the column is written "window"'),
        ("SELECT CAST(policy AS INT) FROM layers", "Conversion Error"),
        (";", "expected one SELECT"),
    ],
)
def test_query_errors_are_one_line(sql: str, reason: str, cli: Cli, tables: Path) -> None:
    code, out, err = cli("query", tables, sql)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err


def test_query_formats(cli: Cli, tables: Path) -> None:
    assert "give one" in cli("query", tables, SUMS, "--json", "--csv").err
    assert "two columns have one name" in cli("query", tables, "SELECT 1 AS a, 2 AS a", "--json").err
    assert json.loads(cli("query", tables, "SELECT 1 AS a WHERE 1 = 2", "--json").out) == []
    control = cli("query", tables, "SELECT chr(27) || '[31m' AS t").out
    assert "\x1b" not in control
    listed = cli("query", tables, "--json").out
    assert json.loads(listed)[0] == {"table": "curves", "column": "hit_ratio", "type": "DOUBLE"}


def test_query_writes_parquet(cli: Cli, tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    code, out, err = cli("query", tables, SUMS, "--parquet", file)
    assert (code, out, err) == (0, "", f"{file}: 2 rows\n")
    written = pq.read_table(file)
    assert written.schema.field("misses").type == pa.int64()
    assert written.to_pydict() == {"policy": ["decode2q", "lru"], "misses": [2, 12]}
    before = file.read_bytes()
    assert "exists already" in cli("query", tables, "SELECT 1 AS x", "--parquet", file).err
    beyond = "SELECT 170141183460469231731687303715884105727::HUGEINT AS big"
    assert "CAST the column" in cli("query", tables, beyond, "--parquet", file, "--force").err
    assert (
        "Conversion"
        in cli("query", tables, "SELECT policy::INT FROM layers", "--parquet", file, "--force").err
    )
    assert file.read_bytes() == before
    assert cli("query", tables, "SELECT 1 AS x", "--parquet", file, "--force").code == 0
    assert pq.read_table(file).to_pydict() == {"x": [1]}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert "needs a query" in cli("query", tables, "--parquet", file).err


def test_query_holds_so_much_memory(cli: Cli, tables: Path) -> None:
    code, _, err = cli("query", tables, "SELECT list(x) FROM range(30000000) t(x)", "--memory", "50MB")
    assert code == 2 and "--memory" in err and err.count("\n") == 1


def test_query_reads_the_summary(cli: Cli, tables: Path) -> None:
    rows = [{"policy": "lru", "misses": 1, "late": None}, {"policy": "x", "misses": 2, "late": 0.5}]
    (tables / "summary.json").write_text(json.dumps(rows))
    assert json.loads(cli("query", tables, "SELECT * FROM summary", "--json").out) == rows
    (tables / "summary.json").write_text('[{"a": 1}, {"a": "x"}]')
    assert "summary.json: not a list of rows" in cli("query", tables, "SELECT 1").err


def test_query_reads_the_trace(cli: Cli, tables: Path, root: Path) -> None:
    trace = root / "traces/e64-spec"
    sql = (
        "SELECT (SELECT count(*) FROM windows) AS mine, (SELECT count(*) FROM trace.windows) AS theirs, "
        "(SELECT count(*) FROM selections WHERE layer = 1 AND len(experts) > 0) AS rows"
    )
    (found,) = json.loads(cli("query", tables, sql, "--trace", trace, "--json").out)
    windows = pq.read_table(trace / "windows.parquet").num_rows
    assert (found["mine"], found["theirs"]) == (2, windows) and found["rows"] >= windows
    listed = json.loads(cli("query", tables, "--trace", trace, "--json").out)
    assert {"trace.windows", "trace.selections", "windows", "layers"} <= {row["table"] for row in listed}
    scores = "SELECT typeof(scores) AS t FROM candidates LIMIT 1"
    assert "FLOAT" in cli("query", tables, scores, "--trace", trace).out
    for escape in (
        f"SELECT * FROM read_parquet('{trace}/windows.parquet')",
        f"SELECT * FROM '{trace}/trace.json'",
    ):
        assert cli("query", tables, escape, "--trace", trace).code == 2


def test_query_refuses_another_trace(cli: Cli, tables: Path, root: Path) -> None:
    (tables / "run.json").write_text(json.dumps({"trace": {"sha256": {"windows": "0" * 64}}}))
    err = cli("query", tables, "SELECT 1", "--trace", root / "traces/e64-spec").err
    assert "table windows is not the one that the run replayed" in err
    assert "trace.json" in cli("query", tables, "SELECT 1", "--trace", tables).err


def test_query_folders(cli: Cli, tables: Path, tmp_path: Path) -> None:
    assert "no such folder" in cli("query", tmp_path / "nowhere", "SELECT 1").err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no tables" in cli("query", empty, "SELECT 1").err
    for damage in (b"", b"PAR1", (tables / "layers.parquet").read_bytes()[:-8]):
        (empty / "layers.parquet").write_bytes(damage)
        code, out, err = cli("query", empty, "SELECT 1")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "layers.parquet: not a Parquet file" in err
