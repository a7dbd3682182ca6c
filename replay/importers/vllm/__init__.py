r"""vLLM: routed experts that it returns with a request, and logs of the ``VLLM_LOG_MOE`` patches.

Returned arrays, as npy or npz (or a folder of them, one request each), told apart by names and shapes:

| generation | arrays |
|---|---|
| first | ``routed_experts`` [prompt + generated - 1, all hidden layers, k], int32, zero-filled |
| second | ``prompt_routed_experts`` [prompt, MoE layers, k] and ``routed_experts`` [generated, MoE layers, k], int16 |
| third | ``routed_experts`` by KV slot [slots, layers, k] with ``slot_mapping``, or by block \
[blocks, size, layers, k] with ``block_table`` |

``prompt_token_ids`` and ``output_token_ids`` beside them tell prompt from generated tokens, else ``--prompt``. -1 is no
data; a layer that is zero in every row is dense; rows that are zero in every layer were not recorded (a cached prefix,
or the last token, which has no forward pass). Logs are JSON lines: see :mod:`replay.importers.vllm.route_log`.
"""

from __future__ import annotations

from pathlib import Path

from replay.importers import Imported, Request
from replay.importers.routed.log import convert_log
from replay.importers.vllm.returned import ReturnedLog
from replay.importers.vllm.route_log import RouteLog

OPTIONS = ("model", "experts", "top_k", "expert_bytes", "prompt")


def convert(source: Path, destination: Path, request: Request) -> Imported:
    """Convert returned routed experts, or a log.

    Parameters
    ----------
    source : Path
        An npy or npz file, a folder of them, or a file of JSON lines.
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
        Something in the source cannot be kept as it is, or the destination is taken; nothing is written then.
    """
    if source.is_file():
        with source.open("rb") as file:
            head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
        if head.startswith(b"{"):
            return convert_log(RouteLog(source, request), destination, request)
    return convert_log(ReturnedLog(source, request), destination, request)
