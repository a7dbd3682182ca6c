"""Files that only count: refused for replay, with the reason; learned from by `static`."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome
from imported import convert
from test_import_waste import write as write_waste

from replay.errors import InputError
from replay.importers import COUNTS_ONLY, importer
from replay.importers.counts import read_counts

Cli = Callable[..., Outcome]

TABLE = np.array([[0, 5, 0, 2], [7, 0, 1, 0]])


def npy(path: Path, values: Any = None) -> Path:
    """What MoE-Infinity keeps: a float matrix a sequence."""
    path = path.with_suffix(".npy")
    np.save(path, np.stack([TABLE - TABLE // 2, TABLE // 2]).astype(np.float64) if values is None else values)
    return path


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def imatrix(path: Path, layers: Any = (0, 1), type: int = 0, organs: Any = ("gate", "down")) -> Path:
    """The new imatrix: a GGUF with sums and counts of each tensor."""
    keys = [
        text("general.type") + struct.pack("<I", 8) + text("imatrix"),
        text("general.alignment") + struct.pack("<II", 4, 64),
        text("imatrix.datasets") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("imatrix.sizes") + struct.pack("<IIQ3I", 9, 4, 3, 1, 2, 3),
    ]
    infos, data = [], b""
    for at, layer in enumerate(layers):
        for organ in organs:
            name = f"blk.{layer}.ffn_{organ}_exps.weight"
            counts = TABLE[at] + (organ == "down") * 1000
            for suffix, values in (("in_sum2", np.ones(8)), ("counts", counts)):
                infos.append(
                    text(f"{name}.{suffix}") + struct.pack("<IQQIQ", 2, len(values), 1, type, len(data))
                )
                data += values.astype("<f4").tobytes().ljust(64, b"\0")
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
    path.write_bytes(head + b"\0" * (-len(head) % 64) + data)
    return path


def usage(path: Path, header: str = "-1 2 4\n-2 1 3735928559\n", shift: int = 0) -> Path:
    rows = [f"{layer + shift} {expert} {TABLE[layer, expert]}\n" for layer, expert in np.argwhere(TABLE)]
    path.write_text(header + "".join(rows))
    return path


def iku1(path: Path) -> Path:
    path.write_bytes(b"IKU1" + struct.pack("<II", 2, 4) + TABLE.astype("<u4").tobytes())
    return path


KINDS: dict[str, Callable[..., Path]] = {"npy": npy, "imatrix": imatrix, "usage": usage, "iku1": iku1}


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_read(tmp_path: Path, kind: str) -> None:
    found = read_counts(KINDS[kind](tmp_path / "c"))
    assert found.matched(2, 4, None).tolist() == TABLE.ravel().tolist()
    assert found.matched(2, 4, (0, 1)).tolist() == TABLE.ravel().tolist()


def test_layers_are_matched(tmp_path: Path) -> None:
    """By the model's numbers where the trace has them; one by one where both have as many."""
    found = read_counts(imatrix(tmp_path / "i", layers=(3, 7)))
    assert found.matched(2, 4, None).tolist() == TABLE.ravel().tolist()
    assert found.matched(1, 4, (7,)).tolist() == TABLE[1].tolist()
    found = read_counts(usage(tmp_path / "u", header="-1 1 4\n"))  # row 1 is the draft head's
    assert found.matched(1, 4, None).tolist() == TABLE[0].tolist()
    legacy = read_counts(usage(tmp_path / "u", header="", shift=5))
    assert legacy.matched(2, 4, (5, 6)).tolist() == TABLE.ravel().tolist()
    with pytest.raises(
        InputError, match="counts layers 5 to 6, 2 of them; expected the 3 layers of the trace"
    ):
        legacy.matched(3, 4, None)
    with pytest.raises(InputError, match="counts 4 experts a layer; expected 8, as the trace"):
        legacy.matched(2, 8, None)


def broken(path: Path, make: Callable[..., Path], change: Callable[[bytes], bytes]) -> Path:
    made = make(path)
    made.write_bytes(change(made.read_bytes()))
    return made


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: npy(p, np.full((2, 2, 4), -1)), "expected counts from 0, found -2.0"),
        (lambda p: npy(p, np.full((2, 2, 4), np.nan)), "expected counts from 0, found nan"),
        (
            lambda p: npy(p, np.zeros(4)),
            "expected counts of shape [n, layers, experts], found float64 of shape [4]",
        ),
        (lambda p: npy(p, np.zeros((1, 2**17))), "expected 1 to 65536 layers and experts"),
        (lambda p: broken(p, npy, lambda b: b[:-1]), "the file is cut short"),
        (lambda p: imatrix(p, type=1), "expected 32-bit floats, found type 1"),
        (lambda p: imatrix(p, organs=()), "expected counts of each expert (blk.N.ffn_*_exps.weight.counts)"),
        (lambda p: broken(p, imatrix, lambda b: b[:-300]), "the file is cut short"),
        (
            lambda p: broken(p, imatrix, lambda b: b[:150]),
            "not a GGUF file that can be read: it is cut short",
        ),
        (lambda p: broken(p, imatrix, lambda b: b[:4] + b"\1" + b[5:]), "expected GGUF version 2 or 3"),
        (lambda p: broken(p, imatrix, lambda b: b[:8] + b"\xff" * 8 + b[16:]), "items are more than"),
        (lambda p: broken(p, imatrix, lambda b: b[:24] + b"\xff" * 8 + b[32:]), "a text of"),
        (
            lambda p: broken(p, usage, lambda b: b + b"1 2\n"),
            "line 7: expected layer, expert and count, found b'1 2",
        ),
        (lambda p: broken(p, usage, lambda b: b + b"1 70000 1\n"), "line 7: no layer, expert and count"),
        (
            lambda p: broken(p, usage, lambda b: b + b"1 5 1\n"),
            "counts an expert that its header's 4 experts",
        ),
        (lambda p: usage(p, header="-1 0 4\n"), "no counts in it"),
        (lambda p: broken(p, usage, lambda b: b[:7]), "no counts in it"),
        (lambda p: broken(p, iku1, lambda b: b[:-1]), "the file is cut short"),
        (lambda p: broken(p, iku1, lambda b: b[:4] + b"\xff" * 8), "expected 1 to 65536 layers and experts"),
        (lambda p: broken(p, iku1, lambda b: b"hello"), "neither a trace's folder nor a file of counts"),
    ],
)
def test_what_is_no_file_of_counts(tmp_path: Path, make: Callable[[Path], Path], expected: str) -> None:
    with pytest.raises(InputError) as problem:
        read_counts(make(tmp_path / "c")).matched(2, 4, None)
    assert expected in str(problem.value) and "\n" not in str(problem.value)


@pytest.mark.parametrize("name", COUNTS_ONLY)
def test_no_importer_takes_counts(tmp_path: Path, cli: Cli, name: str) -> None:
    with pytest.raises(InputError, match="only counts how often each expert was picked, not when"):
        importer(name)
    done = cli("import", name, tmp_path / "x", tmp_path / "t")
    assert done.code == 2 and "-p none+static:train=FILE" in done.err


@pytest.mark.parametrize(("name", "kind"), [("llamacpp", "imatrix"), ("strata", "usage"), ("vllm", "iku1")])
def test_importers_say_so_too(tmp_path: Path, name: str, kind: str) -> None:
    with pytest.raises(
        InputError, match="counts say how often, not when, so nothing can be replayed; pin by them"
    ):
        convert(name, KINDS[kind](tmp_path / "c"), destination=tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_static_pins_by_counts(tmp_path: Path, cli: Cli, kind: str) -> None:
    """The most counted experts of each layer are pinned, as those of a training trace would be."""
    tokens = [{"tok": i, "layers": [[i % 4, (i + 1) % 4], [(i + 2) % 4, (i + 3) % 4]]} for i in range(40)]
    convert("waste", write_waste(tmp_path / "w", tokens))
    # a trace whose events want the experts as the counts say: the same pins, so the same misses
    wanted = [{"tok": i, "layers": [[1] if i < 5 else [3], [0] if i < 6 else [2]]} for i in range(7)]
    convert("waste", write_waste(tmp_path / "v", wanted), destination=tmp_path / "train")
    made = KINDS[kind](tmp_path / "c")
    done = cli("compare", tmp_path / "trace", "-p", f"none+static:train={made}", "-p",
               f"none+static:train={tmp_path / 'train'}", "--slots", "6", "--scope", "layer", "--no-curves",
               "--no-clock", "--json", "-q")  # fmt: skip
    assert done.code == 0, done.err
    import json

    rows = json.loads(done.out)["summary"]
    assert rows[0]["misses"] == rows[1]["misses"] > 0


def test_static_names_the_file(tmp_path: Path, cli: Cli) -> None:
    convert("waste", write_waste(tmp_path / "w"))
    done = cli("compare", tmp_path / "trace", "-p", f"none+static:train={npy(tmp_path / 'c', np.ones((1, 3, 4)))}",
               "--slots", "4", "--no-curves", "-q")  # fmt: skip
    assert done.code == 2 and "policy none+static:train=" in done.err
    assert "expected the 2 layers of the trace" in done.err
