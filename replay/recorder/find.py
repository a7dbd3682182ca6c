"""MoE layers of a model, found by their structure: experts beside a router that projects to one score an expert.

No family is known by name. A block is a module with one or more containers of E experts (a list of modules, or
parameters whose first dimension is E) and, beside them, a child whose only matrix is E x hidden.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from replay.errors import InputError

_ROUTERS = ("gate", "router", "gating")  # only to choose where several children have a router's shape


@dataclass(frozen=True)
class Block:
    """One MoE layer.

    Attributes
    ----------
    path : str
        Its name in the model.
    module : torch.nn.Module
        The block.
    router : torch.nn.Module
        The child that scores the experts.
    projection : torch.nn.Module
        The router itself, or the module in it, that holds the matrix E x hidden.
    experts : tuple of torch.nn.Module
        The containers of the experts.
    layer : torch.nn.Module or None
        The decoder layer that it lies in: the nearest module around it that is an item of a list.
    number : int
        Number of that layer in the model; -1 where there is none.
    count : int
        E.
    bytes : tuple of int
        Bytes of each expert.
    """

    path: str
    module: Any
    router: Any
    projection: Any
    experts: tuple[Any, ...]
    layer: Any
    number: int
    count: int
    bytes: tuple[int, ...]


def find_blocks(model: Any, bits_per_weight: float | None = None) -> list[Block]:
    """Find the MoE layers of a model, in their order.

    Parameters
    ----------
    model : torch.nn.Module
        Any model.
    bits_per_weight : float, optional
        Size of the experts as if stored so; by default what their parameters take.

    Returns
    -------
    list of Block
        At least one. Where several stacks of layers have experts, those of the largest.

    Raises
    ------
    InputError
        No such layer, layers with different numbers of experts, or an encoder-decoder model.
    """
    if bits_per_weight is not None and not bits_per_weight > 0:
        raise InputError(f"bits_per_weight is {bits_per_weight}; expected a number above 0, such as 4.5")
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise InputError("the model has an encoder and a decoder; only decoders can be recorded")
    modules = dict(model.named_modules())
    found = [
        block for path, module in modules.items() for block in _block(path, module, modules, bits_per_weight)
    ]
    if not found:
        raise InputError(
            f"{type(model).__name__}: no MoE layer found: no module holds experts (a list of modules, or parameters "
            "of shape [experts, .., ..]) beside a router with one matrix [experts, hidden]"
        )
    stacks = Counter(_stack(block.path) for block in found)
    largest = stacks.most_common(1)[0][0]
    found = [block for block in found if _stack(block.path) == largest]
    counts = sorted({block.count for block in found})
    if len(counts) > 1:
        raise InputError(
            f"{type(model).__name__}: MoE layers have {counts} experts; a trace needs one number"
        )
    return found


def _stack(path: str) -> str:
    """The path up to the layer's number: names the stack that a layer lies in."""
    return re.split(r"\.\d+(?:\.|$)", path)[0]


def _block(path: str, module: Any, modules: dict[str, Any], bits_per_weight: float | None) -> Iterator[Block]:
    """The block that a module is, if it is one."""
    children = list(module.named_children())
    sizes = {name: _expert_counts(child) for name, child in children}
    if not any(sizes.values()):
        return
    options = []
    for name, child in children:
        matrices = [o for o in child.modules() for each in _own(o) if each.ndim == 2 and min(each.shape) > 1]
        if len(matrices) == 1:
            count, width = matrices[0].weight.shape if hasattr(matrices[0], "weight") else (0, 0)
            held = tuple(
                other
                for other_name, other in children
                if other_name != name and count in sizes[other_name] and _has_width(other, width)
            )
            if count > 1 and held:
                options.append((not any(each in name.lower() for each in _ROUTERS), child, matrices[0], held))
    if not options:
        return
    _, router, projection, experts = min(options, key=lambda option: option[0])
    count = projection.weight.shape[0]
    layer_path = _layer_path(path, modules)
    number = -1 if layer_path is None else int(layer_path.rsplit(".", 1)[-1])
    layer = None if layer_path is None else modules[layer_path]
    size = tuple(
        sum(each) for each in zip(*(_bytes(c, count, bits_per_weight) for c in experts), strict=True)
    )
    yield Block(path, module, router, projection, experts, layer, number, count, size)


def _own(module: Any) -> list[Any]:
    return [each for each in module.parameters(recurse=False) if each is not None]


def _expert_counts(child: Any) -> set[int]:
    """Numbers of experts that a module may hold, from its shape."""
    from torch.nn.modules.conv import _ConvNd

    if isinstance(child, _ConvNd):
        return set()
    counts = {each.shape[0] for each in _own(child) if each.ndim == 3 and min(each.shape[1:]) > 1}
    items = list(child.children())
    if (
        len(items) > 1
        and len({type(each) for each in items}) == 1
        and _own(items[0]) + list(items[0].parameters())
    ):
        counts.add(len(items))
    if any(True for _ in child.parameters()):
        counts |= {
            value
            for name, value in vars(child).items()
            if "expert" in name and isinstance(value, int) and not isinstance(value, bool) and value > 1
        }
    return counts


def _has_width(experts: Any, width: int) -> bool:
    """Whether a dimension of the experts' parameters is the hidden width."""
    return any(width in each.shape for each in experts.parameters())


def _layer_path(path: str, modules: dict[str, Any]) -> str | None:
    """Path of the nearest module at or around ``path`` that is an item of a list of modules."""
    from torch.nn import ModuleList

    while path:
        parent = path.rpartition(".")[0]
        if isinstance(modules.get(parent), ModuleList):
            return path
        path = parent
    return None


def _bytes(experts: Any, count: int, bits_per_weight: float | None) -> list[int]:
    """Bytes of each expert of a container."""

    def size(parameters: Any) -> float:
        if bits_per_weight is not None:
            return sum(each.numel() for each in parameters) * bits_per_weight / 8
        return sum(each.numel() * each.element_size() for each in parameters)

    items = list(experts.children())
    if len(items) == count and len({type(each) for each in items}) == 1:
        return [math.ceil(size(each.parameters())) for each in items]
    return [math.ceil(size(experts.parameters()) / count)] * count
