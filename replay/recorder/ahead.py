"""Candidates: a layer's norm and router applied to the residual stream of an earlier layer.

Layers whose norm is a known formula and whose router is one product are computed together, a few operations for all
of them, so that a small model does not wait for its recorder. The others are computed one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replay.recorder.layer import Layer, tensors_of
from replay.recorder.reading import Seen, project
from replay.recorder.topk import Watch

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

    def __call__(self, residuals: Any) -> Any:
        """Score residual streams [layers, rows, hidden]: [layers, rows, E]."""
        import torch

        x = normalised(residuals.to(self.matrix.device), self.norm.centred, self.norm.eps)
        return x.bmm(self.matrix) if self.bias is None else torch.baddbmm(self.bias, x, self.matrix)


def alone(layer: Layer, residual: Any) -> Any:
    """Score residual streams from an earlier layer with one layer's norm and router.

    Parameters
    ----------
    layer : Layer
    residual : torch.Tensor
        [rows, hidden].

    Returns
    -------
    torch.Tensor
        [rows, E], of the kind that the layer's router scores are.
    """
    reading = layer.reading
    assert reading is not None
    given = residual if layer.norm is None else layer.norm(residual)
    if not needs_router(layer):
        return project(layer.block, given, reading.wide)
    given = given.to(layer.given_type).reshape(*[1] * (layer.given_dims - 2), *given.shape)
    kept, layer.seen = layer.seen, Seen(given=given)  # apart from what is recorded
    block = layer.block

    def keep(module: Any, args: Any, output: Any) -> None:
        layer.seen.projected = output

    handle = block.projection.register_forward_hook(keep)
    try:
        with Watch(block.count) as watched:
            layer.seen.router = tensors_of(block.router.forward(given))
        layer.seen.choices = watched.seen
        if block.projection is block.router:
            layer.seen.projected = layer.seen.router[0]
        return layer.scores(layer.seen)
    finally:
        handle.remove()
        layer.seen = kept


def needs_router(layer: Layer) -> bool:
    """Whether the router itself has to run for a layer's candidates: its matrix alone does not give its scores."""
    reading = layer.reading
    return reading is not None and (not reading.linear or (reading.chosen and reading.in_router))


class Ahead:
    """Candidates of all layers.

    Parameters
    ----------
    layers : list of Layer
        In the order in which they run, after their first pass.
    distance : int
        MoE layers between source and target.

    Attributes
    ----------
    sources : list of int
        Decoder layers, by the id of the module, whose residual streams are wanted: one a target.
    targets : list of int
        The layers that have candidates, ascending.
    """

    def __init__(self, layers: list[Layer], distance: int):
        pairs = [
            (source, target)
            for source, target in zip(layers[:-distance], layers[distance:], strict=True)
            if source.block.layer is not None
            and source.block.layer is not target.block.layer
            and target.reading is not None
            and not target.reading.fixed
            and (target.given_dims or not needs_router(target))
        ]
        self.sources = [id(source.block.layer) for source, _ in pairs]
        self.targets = [target.index for _, target in pairs]
        self._layers = [target for _, target in pairs]
        self._norms = [fit_norm(target) for target in self._layers]
        for layer in layers:
            layer.normed = None, None
        self._groups: list[tuple[list[int], Together]] = []
        self._alone: list[int] = []
        self._together()

    def refresh(self) -> None:
        """Copy the routers' matrices again where they changed."""
        if not all(group.current() for _, group in self._groups):
            self._together()

    def scores(self, residuals: Any) -> Any:
        """Score what the layers left.

        Parameters
        ----------
        residuals : torch.Tensor
            Residual streams [targets, rows, hidden], those of ``sources``.

        Returns
        -------
        float32 ndarray
            [rows, targets, E].
        """
        import torch

        found: list[Any] = [None] * len(self.targets)
        for places, group in self._groups:
            whole = len(places) == len(found)
            for place, each in zip(places, group(residuals if whole else residuals[places]), strict=True):
                found[place] = each.to(residuals.device)
        for place in self._alone:
            layer = self._layers[place]
            given = residuals[place].to(layer.block.projection.weight.device)
            found[place] = alone(layer, given).float().to(residuals.device)
        return torch.stack(found, dim=1).cpu().numpy()

    def _together(self) -> None:
        """Group the layers that can be computed together."""
        kinds: dict[Any, list[int]] = {}
        for place, (layer, norm) in enumerate(zip(self._layers, self._norms, strict=True)):
            if norm is None or needs_router(layer):
                continue
            weight = layer.block.projection.weight
            bias = getattr(layer.block.projection, "bias", None) is None
            kind = norm.centred, norm.eps, norm.scale is None, norm.shift is None, bias
            kinds.setdefault((*kind, weight.shape, weight.device), []).append(place)
        self._groups = []
        for places in kinds.values():
            layers = [self._layers[place] for place in places]
            size = sum(layer.block.projection.weight.numel() * 4 for layer in layers)
            norms = [norm for place in places if (norm := self._norms[place]) is not None]
            if len(places) > 1 and size <= _COPIED:
                self._groups.append((places, Together(layers, norms)))
        grouped = {place for places, _ in self._groups for place in places}
        self._alone = [place for place in range(len(self.targets)) if place not in grouped]
