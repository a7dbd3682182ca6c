"""``replay schema``: the declared tables as JSON, printed, written to files, or compared with them."""

from pathlib import Path
from typing import Annotated

import typer

from replay.errors import CheckFailed, InputError
from replay.schema.page import to_json
from replay.schema.result import RESULT
from replay.schema.trace import TRACE


def schema(
    write: Annotated[
        Path | None, typer.Option("--write", metavar="DIR", help="Write one file a table into this folder.")
    ] = None,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="DIR", help="Compare this folder; exit 1 if it differs.")
    ] = None,
) -> None:
    """Print the contract of every trace and result table as JSON lines.

    Examples
    --------
    replay schema
    replay schema --write schemas
    replay schema --check schemas
    """
    if write is not None and check is not None:
        raise InputError("--write and --check are both given; give one")
    files = {f"{kind}/{name}.json": text for kind, name, text in _texts()}
    if write is not None:
        _write(write, files)
    elif check is not None:
        _check(check, files)
    else:
        import json

        for text in files.values():
            typer.echo(json.dumps(json.loads(text)))


def _texts() -> list[tuple[str, str, str]]:
    both = (("trace", TRACE), ("result", RESULT))
    return [(kind, name, to_json(table, kind)) for kind, tables in both for name, table in tables.items()]


def _stale(folder: Path, files: dict[str, str]) -> list[Path]:
    """Find JSON files of tables that are not declared."""
    there = [path for kind in ("trace", "result") for path in sorted((folder / kind).glob("*.json"))]
    return [path for path in there if path.relative_to(folder).as_posix() not in files]


def _write(folder: Path, files: dict[str, str]) -> None:
    from replay.trace.place import remove
    from replay.trace.staging import write_text

    fresh = not folder.exists()
    try:
        for name, text in files.items():
            write_text(folder / name, text, force=True)
    except BaseException:
        if fresh:
            remove(folder)
        raise
    for path in _stale(folder, files):
        path.unlink()
    typer.echo(f"{folder}: {len(files)} tables written")


def _check(folder: Path, files: dict[str, str]) -> None:
    wrong = [str(path) for path in _stale(folder, files)]
    for name, text in files.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            wrong.append(str(path))
    if wrong:
        raise CheckFailed(f"{', '.join(wrong)}: not as declared; run `replay schema --write {folder}`")
    typer.echo(f"{folder}: {len(files)} tables as declared")
