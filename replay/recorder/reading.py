"""Where a MoE layer's picks, weights and scores are to be read: decided on its first forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from replay.errors import InputError
from replay.recorder.find import Block
from replay.recorder.topk import Choice

_UNIT = 1e-2  # a row of probabilities sums to 1 within this


@dataclass
class Seen:
    """What the hooks of one layer saw in one forward pass.

    Attributes
    ----------
    given : torch.Tensor or None
        The router's input.
    call : tuple
        All arguments of the router, by position and by name.
    router : list of torch.Tensor
        Tensors that the router returned.
    projected : torch.Tensor or None
        What the projection in the router returned.
    experts : dict
        Tensors that the experts were given, by position or name.
    choices : list of Choice
        What ``topk`` chose from.
    """

    given: Any = None
    call: tuple[Any, Any] = ((), {})
    router: list[Any] = field(default_factory=list)
    projected: Any = None
    experts: dict[int | str, Any] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)


@dataclass(frozen=True)
class Reading:
    """Where to read.

    Attributes
    ----------
    picks : str
        ``experts``, ``router`` or ``topk``: what holds them.
    pick_at, weight_at : int, str or None
        Where in it the picks and the weights are; None: no weights.
    logits : str
        ``projection``, ``router``, ``log`` (of what the router returns), or ``linear`` (recomputed from the matrix).
    logit_at : int
        Which of the router's tensors holds them.
    linear : bool
        Whether input times matrix gives the logits.
    wide : bool
        Whether that product is taken in float32.
    chosen : bool
        Whether the recorded scores are those that ``topk`` saw, as the logits do not say what is picked.
    in_router : bool
        Whether that ``topk`` runs inside the router.
    fixed : bool
        Whether no scores say what is picked, as where a table gives each token its experts: the others are recorded
        as masked.
    notes : tuple of str
    """

    picks: str
    pick_at: int | str | None
    weight_at: int | str | None
    logits: str
    logit_at: int
    linear: bool
    wide: bool
    chosen: bool
    in_router: bool
    fixed: bool
    notes: tuple[str, ...]

    @property
    def watches(self) -> bool:
        """Whether ``topk`` has to be watched at every pass."""
        return self.chosen or self.picks == "topk"


def flat(tensor: Any, width: int) -> Any:
    """Give a tensor as rows of ``width``."""
    return tensor.detach().reshape(-1, width)


def project(block: Block, given: Any, wide: bool) -> Any:
    """Multiply a router's input with its matrix.

    Parameters
    ----------
    block : Block
    given : torch.Tensor
        [.., hidden].
    wide : bool
        In float32; else in the matrix's own type.

    Returns
    -------
    torch.Tensor
        Logits [rows, E].
    """
    from torch.nn.functional import linear

    weight = block.projection.weight
    bias = getattr(block.projection, "bias", None)
    given = flat(given, weight.shape[1])
    if wide:
        return linear(given.float(), weight.float(), None if bias is None else bias.float())
    return linear(given.to(weight.dtype), weight, bias)


def decide(block: Block, seen: Seen) -> Reading:
    """Decide where to read, from one pass.

    Parameters
    ----------
    block : Block
    seen : Seen
        What the hooks saw of it.

    Returns
    -------
    Reading

    Raises
    ------
    InputError
        Nothing that was seen holds the picks, or nothing holds the scores.
    """
    where, pick_at, weight_at, picks = _find_picks(block, seen)
    source, logit_at, logits, linear, wide, notes = _find_logits(block, seen)
    choice = _choice_of(block, seen, picks)
    chosen = choice is not None and (_biased(block) or not _says(choice, logits))
    if chosen:
        notes.append(
            "a bias or groups take part in the selection: scores of router_scores are those that it saw, which say "
            "what is picked; the column logits holds the logits"
        )
    in_router = choice is not None and choice.in_router
    fixed = choice is None and not _explained(picks, logits)
    if fixed:
        notes.append(
            "no scores say what is picked (a table by token, perhaps): scores of router_scores are the logits of the "
            "picks, every other expert masked (-inf); the column logits holds the logits; no candidates"
        )
    return Reading(
        where, pick_at, weight_at, source, logit_at, linear, wide, chosen, in_router, fixed, tuple(notes)
    )


def _is_ids(tensor: Any) -> bool:
    return (
        not tensor.dtype.is_floating_point
        and not tensor.dtype.is_complex
        and str(tensor.dtype) != "torch.bool"
    )


def _find_picks(block: Block, seen: Seen) -> tuple[str, int | str | None, int | str | None, Any]:
    """Ids [rows, k] among the experts' arguments, then what the router returned, then what ``topk`` chose."""
    rows = seen.given.numel() // block.projection.weight.shape[1] if seen.given is not None else None
    for where, tensors in (("experts", seen.experts), ("router", dict(enumerate(seen.router)))):
        ids = {key: each for key, each in tensors.items() if _is_ids(each) and each.ndim >= 2}
        for key, each in ids.items():
            width = each.shape[-1]
            fits = width <= block.count and (rows is None or each.numel() == rows * width)
            if not fits or each.numel() == 0 or int(each.max()) >= block.count or int(each.min()) < 0:
                continue
            if width == block.count and int(each.max()) <= 1:
                continue  # a mask of experts, not ids
            weights = [
                other for other, values in tensors.items() if values.shape == each.shape and other not in ids
            ]
            return where, key, weights[0] if weights else None, flat(each, width)
    if seen.choices:
        choice = seen.choices[-1]
        return "topk", None, None, flat(choice.ids, choice.ids.shape[-1])
    raise InputError(
        f"{block.path}: nothing here says which experts were picked: no ids among the experts' arguments or the "
        "router's results, and no topk over the experts"
    )


def _find_logits(block: Block, seen: Seen) -> tuple[str, int, Any, bool, bool, list[str]]:
    """Logits [rows, E]: where, which, their value, whether the product gives them (in float32), and notes."""
    import torch

    products = (
        [] if seen.given is None else [(wide, project(block, seen.given, wide)) for wide in (False, True)]
    )

    def product_like(value: Any) -> tuple[bool, bool]:
        for wide, product in products:
            if product.shape == value.shape and torch.allclose(product.float(), value.float(), 1e-3, 1e-4):
                return True, wide
        return False, False

    if seen.projected is not None and seen.projected.shape[-1] == block.count:
        value = flat(seen.projected, block.count)
        return "projection", 0, value, *product_like(value), []
    found = [
        (i, flat(each, block.count))
        for i, each in enumerate(seen.router)
        if each.dtype.is_floating_point and each.shape[-1] == block.count
    ]
    logits = [(i, value) for i, value in found if not _is_probability(value)]
    for i, value in logits:
        linear, wide = product_like(value)
        if linear:
            return "router", i, value, True, wide, []
    softmaxed = "the router returns softmaxed values for logits (rows sum to 1): "
    for i, value in found:
        if _is_probability(value):
            for wide, product in products:
                if torch.allclose(product.softmax(-1, torch.float32), value.float(), 1e-2, 1e-3):
                    note = softmaxed + "router_scores are recomputed from its matrix"
                    return "linear", i, product, True, wide, [note]
            return (
                "log",
                i,
                value.float().log(),
                False,
                False,
                [softmaxed + "router_scores are their logarithms"],
            )
    if products:
        return "linear", 0, products[0][1], True, products[0][0], []
    raise InputError(f"{block.path}: the router was not called as a module; its scores cannot be read")


def _is_probability(value: Any) -> bool:
    """Whether rows are probabilities: none negative, each row's sum 1."""
    wide = value.float()
    return bool((wide >= 0).all()) and bool(((wide.sum(-1) - 1).abs() < _UNIT).all())


def _choice_of(block: Block, seen: Seen, picks: Any) -> Choice | None:
    """The ``topk`` that made the picks."""
    for choice in reversed(seen.choices):
        if choice.ids.shape[-1] == picks.shape[-1] and choice.ids.numel() == picks.numel():
            ids = flat(choice.ids, picks.shape[-1])
            if bool((ids.sort(-1).values == picks.sort(-1).values).all()):
                return choice
    return None


def _says(choice: Choice, logits: Any) -> bool:
    """Whether the logits order the experts as the scores do that ``topk`` saw, and none of these is masked."""
    scores = flat(choice.scores, logits.shape[-1]).float()
    logits, order = logits.float().sort(dim=-1, descending=True)
    ranked = scores.gather(-1, order)
    falls = (ranked[:, 1:] <= ranked[:, :-1]).all()
    masked = (ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] <= 0) & (logits[:, 1:] != logits[:, :-1])
    return bool(falls) and not bool(masked.any())


def _explained(picks: Any, logits: Any) -> bool:
    """Whether picks are the best of their row, but for ties of low precision, in nearly every row."""
    logits = logits.float()
    picks = picks.to(logits.device).long()
    lowest = logits.gather(-1, picks).amin(-1)
    rest = logits.scatter(-1, picks, -float("inf")).amax(-1)
    slack = 2.0**-6 * rest.abs().clamp(min=1.0)
    return bool((lowest >= rest - slack).float().mean() > 0.9)


def _biased(block: Block) -> bool:
    """Whether a selection bias that is not zero lies beside or inside the router."""
    own = getattr(block.projection, "bias", None)
    places = [*block.router.modules(), block.module]
    for place in places:
        named = [*place.named_parameters(recurse=False), *place.named_buffers(recurse=False)]
        for name, value in named:
            told = "bias" in name and value is not own and value is not None and value.numel() == block.count
            if told and bool((value != 0).any()):
                return True
    return False
