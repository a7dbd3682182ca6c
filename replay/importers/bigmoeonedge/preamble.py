"""The preamble of a route trace: shapes, and the size of each layer's experts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from replay.errors import InputError
from replay.importers.text_rows import TextRows

FIRST = "route_trace v1"
_MODEL = re.compile(
    r"model=(.*?) arch=(\S*) n_layer=(\d{1,9}) n_expert=(\d{1,9}) n_expert_used=(\d{1,9})\b.*"
)
_LAYER = re.compile(r"layer=(\d{1,9}) expert_bytes=(\d{1,18})\b.*")


@dataclass(frozen=True)
class Static:
    """What the preamble says.

    Attributes
    ----------
    model, arch : str
        The model's file, without its folder, and its architecture.
    experts, top_k : int
    layer_ids : tuple of int
        Number in the model of each layer that streams experts, ascending.
    sizes : tuple of int
        Bytes of an expert of each of these layers.
    """

    model: str
    arch: str
    experts: int
    top_k: int
    layer_ids: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def layers(self) -> int:
        """Layers that stream experts."""
        return len(self.layer_ids)


def read_preamble(source: TextRows) -> Static:
    """Read the preamble.

    Parameters
    ----------
    source : TextRows
        The file; its ``#`` lines are read already.

    Returns
    -------
    Static
        Layers whose ``expert_bytes`` is 0 stream nothing and are left out.

    Raises
    ------
    InputError
        Not a route trace v1, or a line that is needed is missing or says what cannot be.
    """
    lines = source.preamble
    if not lines or lines[0] != FIRST:
        found = repr(f"# {lines[0][:60]}") if lines else "none"
        raise InputError(f"{source.path}: line 1: expected '# {FIRST}', found {found}; is it a route trace?")
    models = [found for found in map(_MODEL.fullmatch, lines) if found]
    if len(models) != 1:
        form = "# model=.. arch=.. n_layer=.. n_expert=.. n_expert_used=.."
        raise InputError(f"{source.path}: expected one preamble line '{form}', found {len(models)}")
    path, arch = models[0][1], models[0][2]
    layers, experts, top_k = (int(models[0][i]) for i in (3, 4, 5))
    if not (1 <= layers <= 2**16 and 1 <= experts <= 2**16 and 1 <= top_k <= experts):
        raise InputError(
            f"{source.path}: expected 1 to {2**16} layers and experts and 1 to n_expert picks, found "
            f"n_layer={layers} n_expert={experts} n_expert_used={top_k}"
        )
    sizes = _sizes(source, layers)
    streamed = {layer: size for layer, size in sorted(sizes.items()) if size}
    if not streamed:
        raise InputError(
            f"{source.path}: no layer has expert_bytes in the preamble; without sizes nothing can be replayed"
        )
    model = re.split(r"[/\\]", path)[-1]
    return Static(model, arch, experts, top_k, tuple(streamed), tuple(streamed.values()))


def _sizes(source: TextRows, layers: int) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for found in filter(None, map(_LAYER.fullmatch, source.preamble)):
        layer, size = int(found[1]), int(found[2])
        if layer >= layers or layer in sizes:
            reason = "stands there twice" if layer in sizes else f"is not below n_layer={layers}"
            raise InputError(f"{source.path}: layer={layer} of the preamble {reason}; correct it")
        sizes[layer] = size
    return sizes
