"""What trace.json says of an import: the model, the engine, and where the source is from."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay import __version__

if TYPE_CHECKING:
    from replay.importers import Imported, Request
    from replay.importers.routed.log import Log
    from replay.importers.routed.window import Shape


def file_hash(path: Path) -> str:
    """Hash a file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    str
        SHA-256, lower-case hex.
    """
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def provenance(format: str, path: Path, sha256: str, result: Imported, request: Request) -> dict[str, Any]:
    """Make the section ``source``.

    Parameters
    ----------
    format : str
        Name of the importer.
    path : Path
        The source.
    sha256 : str
        Its hash.
    result : Imported
        What was read and left out.
    request : Request
        Licence and note.

    Returns
    -------
    dict
    """
    return {
        "importer": f"replay import {format}",
        "version": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "file": path.name,
        "sha256": sha256,
        "licence": request.licence or "not given",
        "notes": "; ".join([*([request.note] if request.note else []), *result.notes]),
        f"{result.unit}_read": result.read,
        f"{result.unit}_removed": result.removed,
    }


def describe(log: Log, shape: Shape, result: Imported, request: Request) -> dict[str, Any]:
    """Make trace.json, but for the tables.

    Parameters
    ----------
    log : Log
        The source.
    shape : Shape
        What its windows share.
    result : Imported
        What was read and left out.
    request : Request
        What the source does not say.

    Returns
    -------
    dict
    """
    model: dict[str, Any] = {
        "name": request.model or log.model or log.path.stem,
        "layers": shape.layers,
        "experts": shape.experts,
        "top_k": shape.top_k,
    }
    if shape.layer_ids != tuple(range(shape.layers)):
        model["layer_ids"] = list(shape.layer_ids)
    return {
        "model": model,
        "expert_bytes": request.expert_bytes or log.expert_bytes or 1,
        "router": None,
        "policy": None,
        "io": None,
        "engine": {"name": log.engine or "unknown", "version": "unknown", "config": log.config},
        "source": provenance(log.format, log.path, log.sha256(), result, request),
    }
