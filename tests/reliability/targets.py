"""What is fuzzed: files of every format that the program reads, healthy ones to damage, and how to read one."""

from __future__ import annotations

import io
import json
import shutil
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import test_counts
import test_import_bigmoeonedge as bigmoeonedge
import test_import_hf_logits as hf_logits
import test_import_imp as imp
import test_import_jsonl as jsonl
import test_import_llamacpp as llamacpp
import test_import_strata as strata
import test_import_table as table
import test_import_vllm as vllm
import test_import_waste as waste
from raw_trace import healthy
from test_trace_refusals import settle

from reliability import choices
from reliability.bad import kept
from replay.importers import Request, importer
from replay.schema.trace import TRACE

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces" / "external"


@dataclass(frozen=True)
class Target:
    """One format.

    Attributes
    ----------
    name : str
        Of the format.
    seeds : callable
        Healthy files, as bytes.
    read : callable
        Reads a file of these bytes in an empty folder; raises what the program raises. What is left in the folder
        besides ``source`` after a refusal is a fault.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path, bytes], Any]


def _made(*writes: Callable[[Path], Any]) -> list[bytes]:
    """The bytes that some writers write."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, write in enumerate(writes):
            path = Path(folder) / f"{number}"
            made = write(path)
            found.append((made if isinstance(made, Path) else path).read_bytes())
    return found


def _real(name: str, size: int) -> list[bytes]:
    """The first lines of a recorded file, where it is there."""
    path = SHARED / name
    if not path.is_file():
        return []
    data = path.read_bytes()[:size]
    return [data[: data.rfind(b"\n") + 1]]


def _real_steps(name: str, steps: int) -> list[bytes]:
    """The head and the last steps of a recorded route trace, where it is there."""
    path = SHARED / name
    if not path.is_file():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    head = next(i for i, line in enumerate(lines) if not line.startswith(b"#")) + 1
    numbers = [int(line.split(b",")[2]) for line in lines[head:]]
    first = sorted(set(numbers))[-steps]
    return [
        b"".join(lines[:head] + [line for line, n in zip(lines[head:], numbers, strict=True) if n >= first])
    ]


def _import(format: str, **request: Any) -> Callable[[Path, bytes], Any]:
    def read(folder: Path, data: bytes) -> None:
        source = folder / "source"
        source.write_bytes(data)
        importer(format)(source, folder / "out", Request(**request))
        shutil.rmtree(folder / "out")

    return read


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _vllm_seeds() -> list[bytes]:
    ids = vllm.IDS.astype(np.int32)
    lines = [vllm.META, *(vllm.route(i, each) for i, each in enumerate(vllm.PICKS))]
    log = "".join(json.dumps(each) + "\n" for each in lines).encode()
    return [
        _npy(ids),
        _npy(vllm.dense(ids, 0, 2)),
        _npz(routed_experts=ids),
        log,
        _npz(prompt_routed_experts=ids[:3].astype(np.int16), routed_experts=ids[3:].astype(np.int16)),
        _npz(
            routed_experts=ids,
            prompt_token_ids=np.arange(3),
            output_token_ids=np.arange(4),
            request_id=np.array("r"),
        ),
        _npz(routed_experts=ids, slot_mapping=np.arange(6)),
    ]


def _sglang(folder: Path, data: bytes) -> None:
    """Without torch: the dump's numbers come from the file, in the shape of a dump."""
    from test_import_sglang import RECORDS, identity

    from replay.importers import sglang

    numbers = np.frombuffer(data[: len(data) // 4 * 4], np.int32)
    records, at = [], 0
    for each in RECORDS:
        ids = each["topk_ids_of_layer"]
        part = np.resize(numbers[at : at + ids.size] if at < len(numbers) else np.int32(-1), ids.shape)
        at += ids.size
        records.append(
            {**each, "topk_ids_of_layer": part, "forward_mode": int(numbers[-1] % 9) if at % 2 else 2}
        )
    map = np.resize(numbers[-12:], (3, 4)) if len(data) % 3 == 0 and len(numbers) > 12 else identity()
    load = sglang.load_dump
    sglang.load_dump = lambda _: {"records": records, "last_physical_to_logical_map": map}  # type: ignore[assignment]
    try:
        _import("sglang")(folder, b"PK" + data)
    finally:
        sglang.load_dump = load


def _sglang_seeds() -> list[bytes]:
    from test_import_sglang import RECORDS

    ids = b"".join(each["topk_ids_of_layer"].astype("<i4").tobytes() for each in RECORDS)
    return [ids + b"\0" * ((1 - len(ids)) % 3)]


def _counts(folder: Path, data: bytes) -> None:
    from replay.importers.counts import read_counts

    (folder / "source").write_bytes(data)
    read_counts(folder / "source").matched(2, 4, None)


def _record_seeds() -> list[bytes]:
    return [strata.dump(), strata.dump([*strata.TOKENS, *strata.TOKENS]), struct.pack("<4i", 0, 1, 3, 0) * 9]


IMPORTS = (
    Target(
        "import bigmoeonedge",
        lambda: _made(bigmoeonedge.write) + _real_steps("bigmoeonedge/gptoss.route.csv", 2),
        _import("bigmoeonedge"),
    ),
    Target(
        "import hf-logits",
        lambda: _made(lambda p: hf_logits.write(p.with_suffix(".npz"))),
        _import("hf-logits", top_k=2),
    ),
    Target(
        "import imp",
        lambda: _made(imp.write, lambda p: imp.write(p, imp.ROWS * 3, model="x")),
        _import("imp"),
    ),
    Target(
        "import jsonl",
        lambda: _made(jsonl.write, lambda p: jsonl.write(p, jsonl.edited(1, weights=[[0.5, 0.25], None]))),
        _import("jsonl"),
    ),
    Target(
        "import llamacpp",
        lambda: [x if isinstance(x := make(), bytes) else x.encode() for make in llamacpp.LAYOUTS.values()],
        _import("llamacpp"),
    ),
    Target("import sglang", _sglang_seeds, _sglang),
    Target("import strata", _record_seeds, _import("strata")),
    Target("import table", lambda: _made(*table.KINDS.values()), _import("table")),
    Target("import vllm", _vllm_seeds, _import("vllm")),
    Target(
        "import waste",
        lambda: _made(waste.write) + _real("waste/trace_olmoe_299.jsonl", 4000),
        _import("waste"),
    ),
    Target("counts", lambda: _made(*test_counts.KINDS.values()), _counts),
)


# --- traces ----------------------------------------------------------------------------------------


@cache
def _trace() -> Path:
    return healthy().write(kept() / "tiny trace")


def _all_of(folder: Path) -> None:
    """Read every column of every table, and find that validation says the same."""
    from replay.errors import InputError
    from replay.trace import open_trace
    from replay.trace.validate import validate

    found = validate(folder)
    try:
        trace = open_trace(folder)
        names = [name for name in trace.tables if name not in ("windows", "experts")]
        for _ in trace.chunks(names, {"selections": ("weights", "outcome")}):
            pass
    except InputError as problem:
        assert str(problem) in {each.line() for each in found.failures} or found.untold(), str(problem)
        raise
    assert found.valid, [each.line() for each in found.failures]


def _table_file(name: str) -> Callable[[Path, bytes], Any]:
    def read(folder: Path, data: bytes) -> None:
        source = folder / "source"
        shutil.copytree(_trace(), source)
        (source / f"{name}.parquet").write_bytes(data)
        settle(source, name)
        _all_of(source)

    return read


def _document(folder: Path, data: bytes) -> None:
    source = folder / "source"
    shutil.copytree(_trace(), source)
    (source / "trace.json").write_bytes(data)
    _all_of(source)


TRACES = (
    *(
        Target(
            f"trace {name}",
            lambda name=name: [(_trace() / f"{name}.parquet").read_bytes()],
            _table_file(name),
        )
        for name in TRACE
    ),
    Target("trace.json", lambda: [(_trace() / "trace.json").read_bytes()], _document),
)


# --- small files -----------------------------------------------------------------------------------


def _text(*texts: str) -> Callable[[], list[bytes]]:
    return lambda: [each.encode() for each in texts]


def _small(read: Callable[[Path], Any]) -> Callable[[Path, bytes], Any]:
    def act(folder: Path, data: bytes) -> None:
        (folder / "source").write_bytes(data)
        read(folder / "source")

    return act


def _budget(path: Path) -> Any:
    from replay.arena.bound import read_budget

    return read_budget(path, np.zeros((3, 8), np.uint8))


def _clock(path: Path) -> Any:
    from replay.clock.timing import load_clock, load_verify

    load_verify(path)
    return load_clock(path)


def _specs(path: Path) -> Any:
    from replay.spec.grammar import parse_all

    return parse_all([f"@{path}"])


def _q(path: Path) -> Any:
    from replay.calibration.file import read_q

    return read_q(path, 2, 8, 2)


def _coverage(path: Path) -> Any:
    from replay.calibration.file import read_coverage

    return read_coverage(path, 2, 8, 2)


def _json(name: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        import test_calibration_file

        return [json.dumps(getattr(test_calibration_file, name)).encode()]

    return seeds


def _run_file(name: str) -> Callable[[Path, bytes], Any]:
    def read(folder: Path, data: bytes) -> None:
        from reliability.bad_files import _run
        from replay.run import load

        shutil.copytree(_run(), folder / "source")
        (folder / "source" / name).write_bytes(data)
        load(folder / "source")

    return read


def _run_seed(name: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        from reliability.bad_files import _run

        return [(_run() / name).read_bytes()]

    return seeds


@cache
def _recording() -> Path:
    from test_record import spooled

    spool = spooled(kept() / "own", 3)
    spool.close()
    return spool.folder


def _recover(name: str) -> Callable[[Path, bytes], Any]:
    def read(folder: Path, data: bytes) -> None:
        from replay.recorder.spool import recover

        shutil.copytree(_recording(), folder / "source")
        (folder / "source" / name).write_bytes(data)
        recover(folder / "source", folder / "out")
        shutil.rmtree(folder / "out")

    return read


FILES = (
    Target("budget", _text("total = [9]\nslots = [\n    [3, 3, 3],\n]\n"), _small(_budget)),
    Target(
        "clock",
        _text("workers = 8\nreserved = 2\nlatency_us = 80.0\n[verify]\ncost = [1.0, 1.02]\nfixed = 0.1\n"),
        _small(_clock),
    ),
    Target(
        "file of specs", _text('[policies]\nfast = "unpert1:k=4+decode2q"\nplain = "lru"\n'), _small(_specs)
    ),
    Target("q", _json("Q"), _small(_q)),
    Target("coverage", _json("COVERAGE"), _small(_coverage)),
    *(
        Target(f"run {name}", _run_seed(name), _run_file(name))
        for name in ("run.json", "summary.json", "layers.parquet")
    ),
    *(
        Target(f"recording {name}", lambda name=name: [(_recording() / name).read_bytes()], _recover(name))
        for name in ("recording.json", "windows.arrows", "selections.arrows")
    ),
)

CHOSEN = (
    Target("trace values", choices.seeds, choices.replay_trace),
    Target("specs", choices.seeds, choices.replay_specs),
    Target("options", lambda: list(choices.OPTION_TEXTS), choices.read_options),
)

TARGETS = (*IMPORTS, *TRACES, *FILES, *CHOSEN)
