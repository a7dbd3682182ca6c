"""The declarations: complete, well formed, and what ``schemas/`` says."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from replay.schema.arrow import arrow_schema, arrow_type
from replay.schema.page import to_json
from replay.schema.result import RESULT
from replay.schema.table import Table
from replay.schema.trace import TRACE

ALL = [("trace", table) for table in TRACE.values()] + [("result", table) for table in RESULT.values()]


@pytest.mark.parametrize(("kind", "table"), ALL, ids=[f"{kind}/{table.name}" for kind, table in ALL])
def test_the_files_are_as_declared(root: Path, kind: str, table: Table) -> None:
    path = root / "schemas" / kind / f"{table.name}.json"
    assert path.read_text(encoding="utf-8") == to_json(table, kind), "run `replay schema --write schemas`"


def test_no_other_file_is_there(root: Path) -> None:
    there = {path.relative_to(root / "schemas").as_posix() for path in (root / "schemas").rglob("*.json")}
    assert there == {f"{kind}/{table.name}.json" for kind, table in ALL}


@pytest.mark.parametrize(("kind", "table"), ALL, ids=[f"{kind}/{table.name}" for kind, table in ALL])
def test_declarations_are_well_formed(kind: str, table: Table) -> None:
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    assert list(table.key) == [name for name in names if name in table.key], (
        "the key's columns come first, in order"
    )
    assert kind == "result" or not any(table.column(name).nullable for name in table.key)
    schema = arrow_schema(table)
    assert schema.names == names
    document = json.loads(to_json(table, kind))
    assert [each["name"] for each in document["columns"]] == names
    with pytest.raises(KeyError):
        table.column("none such")


def test_types() -> None:
    assert arrow_type("list<uint16>") == pa.list_(pa.uint16())
    assert arrow_type("list<score>", "float16") == pa.list_(pa.float16())
    assert arrow_type("bool") == pa.bool_() and arrow_type("string") == pa.string()


def test_the_format_page_names_the_same_columns(shared: Path) -> None:
    """Every backquoted table of the format's page is declared, with every column that its row names."""
    page = (shared / "spec" / "trace-format.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    found = {row[1].strip().strip("`"): row[2] + row[3] for row in rows if len(row) == 5}
    assert set(TRACE) <= set(found)
    for name, table in TRACE.items():
        missing = [column.name for column in table.columns if column.name not in found[name]]
        assert not missing, (name, missing)


def test_the_command(cli: Callable[..., tuple[int, str, str]], tmp_path: Path, root: Path) -> None:
    code, out, _ = cli("schema")
    assert code == 0 and len([json.loads(line) for line in out.splitlines()]) == len(ALL)
    assert cli("schema", "--write", tmp_path / "made")[0] == 0
    assert cli("schema", "--check", tmp_path / "made")[0] == 0
    (tmp_path / "made" / "trace" / "windows.json").write_text("{}")
    (tmp_path / "made" / "trace" / "old.json").write_text("{}")
    code, _, err = cli("schema", "--check", tmp_path / "made")
    assert code == 1 and "windows.json" in err and "old.json" in err and "replay schema --write" in err
    assert cli("schema", "--write", tmp_path / "made")[0] == 0
    assert not (tmp_path / "made" / "trace" / "old.json").exists()
    assert cli("schema", "--write", "a", "--check", "b")[0] == 2
