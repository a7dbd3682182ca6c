"""Candidates: a layer's norm and router applied to the residual stream of an earlier layer.

Layers whose norm is a known formula and whose router is one product are computed together, a few operations for all
of them, so that a small model does not wait for its recorder. The others are computed one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replay.recorder.layer import Layer, tensors_of
from replay.recorder.reading import Seen, project
from replay.recorder.topk import watch

_COPIED = 64 * 2**20  # most bytes of router matrices that are copied to be computed together


@dataclass(frozen=True)
class Norm:
    """A norm as a formula: ``x / sqrt(mean(x^2) + eps) * scale``, or with mean and shift (layer norm).

    Attributes
    ----------
    centred : bool
        Whether the mean is taken off first.
    eps : float
    scale : torch.Tensor or None
    shift : torch.Tensor or None
    """

    centred: bool
    eps: float
    scale: Any
    shift: Any


def normalised(x: Any, centred: bool, eps: float) -> Any:
    """Normalise the last dimension in float32."""
    from torch.nn.functional import layer_norm, rms_norm

    return (layer_norm if centred else rms_norm)(x.float(), x.shape[-1:], eps=eps)


def fit_norm(layer: Layer) -> Norm | None:
    """Find the formula of a layer's norm from what it did.

    Parameters
    ----------
    layer : Layer
        After its first pass.

    Returns
    -------
    Norm or None
        None where it has no norm, or one of another kind.
    """
    import torch

    norm, (given, got) = layer.norm, layer.normed
    if norm is None or given is None:
        return None
    eps = next(
        (getattr(norm, name) for name in ("variance_epsilon", "eps", "epsilon") if hasattr(norm, name)), None
    )
    if not isinstance(eps, float):
        return None
    weight, shift = getattr(norm, "weight", None), getattr(norm, "bias", None)
    scales = [None] if weight is None else [weight.detach().float(), 1 + weight.detach().float()]
    close = (1e-4, 1e-5) if got.dtype == torch.float32 else (2e-2, 2e-3)
    for centred in (False, True):
        for scale in scales:
            value = normalised(given, centred, eps)
            value = value if scale is None else value * scale
            value = value if shift is None else value + shift.detach().float()
            if torch.allclose(value, got.float(), *close):
                return Norm(centred, eps, scale, None if shift is None else shift.detach().float())
    return None


class Together:
    """Layers of one kind, computed together, in float32, the norms' scales and shifts multiplied in.

    Parameters
    ----------
    layers : list of Layer
    norms : list of Norm
        Alike but for their vectors.
    """

    def __init__(self, layers: list[Layer], norms: list[Norm]):
        import torch

        self.layers = layers
        self.targets = [layer.index for layer in layers]
        self.norm = norms[0]
        projections = [layer.block.projection for layer in layers]
        self.weights = [each.weight for each in projections]
        self.versions = [each._version for each in self.weights]
        matrix = torch.stack([each.detach().float() for each in self.weights]).transpose(1, 2)
        biases = [each.bias for each in projections if getattr(each, "bias", None) is not None]
        self.bias = torch.stack([each.detach().float() for each in biases])[:, None] if biases else None
        if self.norm.shift is not None:
            shift = torch.stack([each.shift for each in norms])[:, None] @ matrix
            self.bias = shift if self.bias is None else self.bias + shift
        if self.norm.scale is not None:
            matrix = torch.stack([each.scale for each in norms])[:, :, None] * matrix
        self.matrix = matrix.contiguous()

    def current(self) -> bool:
        """Whether the matrices are still what was copied."""
        return self.versions == [each._version for each in self.weights]

    def __call__(self, residuals: list[Any]) -> Any:
        """Score residual streams [.., hidden], one a layer: [layers, rows, E]."""
        import torch

        stacked = torch.stack(residuals).reshape(len(residuals), -1, self.matrix.shape[1])
        x = normalised(stacked, self.norm.centred, self.norm.eps)
        return x.bmm(self.matrix) if self.bias is None else torch.baddbmm(self.bias, x, self.matrix)


def alone(layer: Layer, residual: Any) -> Any:
    """Score a residual stream from an earlier layer with one layer's norm and router.

    Parameters
    ----------
    layer : Layer
    residual : torch.Tensor
        [.., hidden].

    Returns
    -------
    torch.Tensor
        [rows, E], of the kind that the layer's router scores are.
    """
    reading = layer.reading
    assert reading is not None
    given = residual if layer.norm is None else layer.norm(residual)
    if reading.linear and not (reading.chosen and reading.in_router):
        return project(layer.block, given, reading.wide)
    now, (args, kwargs) = layer.seen.given, layer.seen.call
    if given.numel() != now.numel():
        return given.new_zeros(0, layer.block.count)  # not one row a token
    given = given.reshape(now.shape).to(now.dtype)
    args = tuple(given if each is now else each for each in args)
    kwargs = {name: given if each is now else each for name, each in kwargs.items()}
    kept, layer.seen = layer.seen, Seen(given=given)  # apart from what is recorded
    try:
        with (watched := watch(layer.block.count)):
            layer.seen.router = tensors_of(layer.block.router.forward(*args, **kwargs))
        layer.seen.choices = watched.seen
        return layer.scores(layer.seen)
    finally:
        layer.seen = kept


class Ahead:
    """Candidates of all layers.

    Parameters
    ----------
    layers : list of Layer
        In the order in which they run.
    distance : int
        MoE layers between source and target.

    Attributes
    ----------
    pairs : list of tuple
        Source and target of each candidate.
    targets : list of int
        Target layers, in the order of :meth:`scores`.
    """

    def __init__(self, layers: list[Layer], distance: int):
        self.pairs = [
            (source, target)
            for source, target in zip(layers[:-distance], layers[distance:], strict=True)
            if source.block.layer is not None
            and source.block.layer is not target.block.layer
            and not (target.reading is not None and target.reading.fixed)
        ]
        self.targets: list[int] = []
        self._groups: list[Together] | None = None
        self._alone: list[Layer] = []
        self._sources: dict[int, int] = {}
        self._norms: dict[int, Norm | None] = {}

    def prepare(self) -> None:
        """Learn the norms from the first pass; forget what it kept."""
        for _, target in self.pairs:
            self._norms[target.index] = fit_norm(target)
            target.normed = None, None

    def refresh(self) -> None:
        """Copy the routers' matrices again where they changed."""
        if self._groups is None or not all(group.current() for group in self._groups):
            self._groups = self._together()
            grouped = {layer.index for group in self._groups for layer in group.layers}
            self._alone = [target for _, target in self.pairs if target.index not in grouped]
            self._sources = {target.index: id(source.block.layer) for source, target in self.pairs}
            targets = [each for group in self._groups for each in group.targets]
            self.targets = targets + [layer.index for layer in self._alone]

    def scores(self, residuals: dict[int, Any]) -> list[Any]:
        """Score what the layers left.

        Parameters
        ----------
        residuals : dict of torch.Tensor
            Residual stream after each decoder layer, by the id of its module.

        Returns
        -------
        list of torch.Tensor
            Scores [n, rows, E], together those of ``targets`` in their order.
        """
        if self._groups is None:
            self.refresh()
        assert self._groups is not None
        sources = self._sources
        found = [group([residuals[sources[target]] for target in group.targets]) for group in self._groups]
        for layer in self._alone:
            found.append(alone(layer, residuals[sources[layer.index]])[None])
        return found

    def _together(self) -> list[Together]:
        """Groups of layers that can be computed together."""
        kinds: dict[Any, list[tuple[Layer, Norm]]] = {}
        for _, target in self.pairs:
            norm, reading = self._norms.get(target.index), target.reading
            if (
                norm is None
                or reading is None
                or not reading.linear
                or (reading.chosen and reading.in_router)
            ):
                continue
            weight = target.block.projection.weight
            bias = getattr(target.block.projection, "bias", None) is None
            shape = norm.scale is None, norm.shift is None, bias
            kind = norm.centred, norm.eps, *shape, weight.shape, weight.device
            kinds.setdefault(kind, []).append((target, norm))
        groups = []
        for members in kinds.values():
            layers = [layer for layer, _ in members]
            size = sum(layer.block.projection.weight.numel() * 4 for layer in layers)
            if len(members) > 1 and size <= _COPIED:
                groups.append(Together(layers, [norm for _, norm in members]))
        return groups
