"""The llama.cpp family: five ways in which its forks and tools write routing, told apart by what is in the file.

| source | what a record is |
|---|---|
| CSV ``pos,layer,e0,e1,..`` | one token at one layer |
| CSV ``phase,token,layer,rank,expert`` | one pick |
| text ``route <step> <layer> <k> <n_tokens> <expert>:<slot> ..`` | one layer of one step |
| JSONL with ``experts`` and ``slots``, or ``expert_ids`` and ``slot_ids`` | one layer of one step |
| binary, little-endian int32 ``layer, n_tokens, k, ids`` | one layer of one step |

- Layers are the model's own numbers. A step ends where the layer number falls.
- In a prompt the last layer routes only the rows whose output is asked for: the last ones. The others have empty
  lists there.
- Positions below 0 are of no row; files joined with ``cat`` have a header in mid-file, which begins a session; the
  row that warms the weights up before the first prompt is left out. Each is counted.
- A slot of -1 is a miss, any other a hit; the source does not tell a read-ahead from a hit.
- Models with a selection bias rank by biased scores and weigh by others: the trace keeps the order and says so.
"""

from __future__ import annotations

from pathlib import Path

from replay.errors import InputError
from replay.importers import Imported, Request
from replay.importers.counted import refuse_counts
from replay.importers.llamacpp.records import BinaryLog, JsonLog, TextLog
from replay.importers.llamacpp.tables import PickLog, WideLog
from replay.importers.routed.log import Log, convert_log

OPTIONS = ("model", "experts", "top_k", "expert_bytes", "prompt")

_HEAD = 2**16  # bytes looked at to tell the layouts apart


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert a routing log of llama.cpp or one of its forks.

    Parameters
    ----------
    source : Path
        The file.
    destination : Path
        The trace's folder.
    request : Request
        Model, experts, top-k, size of an expert, prompt, licence, and whether to replace.

    Returns
    -------
    Imported
        What was written, and what was left out.

    Raises
    ------
    InputError
        None of the layouts, something in the file cannot be kept as it is, or the destination is taken; nothing is
        written then.
    """
    return convert_log(_log(source, request), destination, request)


def _log(source: Path, request: Request) -> Log:
    """Tell the layouts apart."""
    refuse_counts(source)
    with source.open("rb") as file:
        head = file.read(_HEAD)
    if b"\0" in head:
        return BinaryLog(source, request)
    lines = [line.strip() for line in head.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()]
    lines = [line for line in lines if line]
    first = lines[0] if lines else ""
    if first.startswith("{"):
        return JsonLog(source, request)
    if any(line.startswith("route ") for line in lines):
        return TextLog(source, request)
    names = {
        name.strip().strip('"') for name in next((line for line in lines if line[:1] != "#"), "").split(",")
    }
    if {"pos", "layer", "e0"} <= names:
        return WideLog(source, request)
    if {"token", "layer", "expert"} <= names:
        return PickLog(source, request)
    raise InputError(
        f"{source}: begins with {first[:40]!r}; expected CSV pos,layer,e0,.. or phase,token,layer,rank,expert, lines "
        "of 'route', JSON lines with experts, or binary int32; other tables go through `replay import table`"
    )
