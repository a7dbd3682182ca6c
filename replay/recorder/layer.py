"""The hooks of one MoE layer: full ones at its first forward pass, then only those that its reading needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replay.errors import InputError
from replay.recorder.find import Block
from replay.recorder.reading import Reading, Seen, decide, flat, project
from replay.recorder.topk import Watch


@dataclass
class Stage:
    """The pass that runs now, None between passes."""

    now: Any = None


class Layer:
    """One MoE layer while it is recorded.

    Parameters
    ----------
    block : Block
    ask : callable
        Called once a pass when the picks are known, with the layer, picks [rows, k], weights (or None) and scores
        [rows, E]; returns None, or picks and weights that the experts are to use instead.
    end : callable
        Called with the layer when its block is done.
    stage : Stage
        Holds the present pass.

    Attributes
    ----------
    index : int
        Its number among the MoE layers, in the order in which they run; -1 until it ran.
    reading : Reading or None
        Where picks and scores are; None until it ran.
    norm : torch.nn.Module or None
        The module whose output the router is given.
    plain : bool
        Whether two hooks that only keep what they see are enough.
    seen : Seen
        What the hooks saw in the present pass.
    normed : tuple of torch.Tensor
        What that norm was given and gave, in the first pass.
    given_dims, given_type : int, torch.dtype
        Dimensions and type of the router's input; 0 and None where it is given more than one tensor.
    """

    def __init__(self, block: Block, ask: Callable[..., Any], end: Callable[[Layer], None], stage: Stage):
        self.index = -1
        self.block = block
        self.reading: Reading | None = None
        self.norm: Any = None
        self.normed: tuple[Any, Any] = (None, None)
        self.given_dims, self.given_type = 0, None
        self._ask, self._end, self._stage = ask, end, stage
        self.seen = Seen()
        self._watch: Any = None
        self.plain = False
        self._asked = self._full = False
        self._position: int | None = None  # of the scores in what the scorer returns; None: it is one tensor
        self._first: list[tuple[Any, Any]] = []  # scores of the first pass, and copies of them
        self._returned: Any = None
        self._outputs: list[tuple[Any, Any, Any]] = []
        self._handles: list[Any] = []

    def _arm_plainly(self) -> None:
        """Few hooks that only keep what they see: the usual layer, nothing steered or timed."""
        reading, stage, i, width = self.reading, self._stage, self.index, self.block.count
        assert reading is not None
        at, watched = self._position, Watch(self.block.count)
        scorer = self.block.projection if reading.logits == "projection" else self.block.router

        def enter_experts(module: Any, args: Any) -> None:
            self._keep_picks(args)

        def leave_scorer(module: Any, args: Any, output: Any) -> None:
            if stage.now is not None:
                logits = flat(output if at is None else output[at], width)
                (stage.now.logits if reading.chosen else stage.now.scores)[i] = logits

        def enter_router(module: Any, args: Any) -> None:
            if stage.now is not None:
                watched.seen.clear()
                watched.__enter__()

        def leave_router(module: Any, args: Any, output: Any) -> None:
            watched.__exit__()
            if stage.now is not None:
                choice = watched.seen[-1]
                if reading.chosen:
                    stage.now.scores[i] = flat(choice.scores, width)
                if reading.picks == "topk":
                    self._keep_picks((choice.ids,))

        if reading.picks == "experts":
            self._hook(self.block.experts[0].register_forward_pre_hook, enter_experts)
        if reading.watches:
            self._watch = watched
            self._hook(self.block.router.register_forward_pre_hook, enter_router)
        self._hook(scorer.register_forward_hook, leave_scorer)
        if reading.watches:
            self._hook(self.block.router.register_forward_hook, leave_router)

    def _keep_picks(self, held: Any) -> None:
        """Keep picks and weights as they are; ``held`` is what they are items of."""
        now, reading = self._stage.now, self.reading
        if now is None or reading is None:
            return
        if now.picks[self.index] is not None:
            raise InputError(self._twice())
        picks = held[0 if reading.picks == "topk" else reading.pick_at]
        now.picks[self.index] = flat(picks, picks.shape[-1])
        if reading.weight_at is not None:
            now.weights[self.index] = flat(held[reading.weight_at], picks.shape[-1])

    def arm(self, ends: bool) -> None:
        """Put the hooks on: all of them while nothing is decided, then those that are needed.

        Parameters
        ----------
        ends : bool
            Whether the end of the block has to be told.
        """
        if self._handles and not (self._full and self.reading):
            return
        self.disarm()
        reading, block = self.reading, self.block
        self._full = reading is None
        if self.plain:
            self._arm_plainly()
            return
        watches = reading is None or reading.watches
        within = reading is not None and reading.in_router and reading.picks == "experts"
        if ends or (watches and not within) or (reading is not None and reading.picks != "experts"):
            self._hook(block.module.register_forward_pre_hook, self._begin)
            self._hook(block.module.register_forward_hook, self._finish, always_call=True)
        if reading is None or watches or reading.logits == "linear" or not reading.linear:
            self._hook(block.router.register_forward_pre_hook, self._enter_router, with_kwargs=True)
        if reading is None or watches or reading.logits in ("router", "log") or reading.picks == "router":
            self._hook(block.router.register_forward_hook, self._leave_router)
        if block.projection is not block.router and (reading is None or reading.logits == "projection"):
            self._hook(block.projection.register_forward_hook, self._project)
        if reading is None or watches or reading.picks == "experts":
            self._hook(block.experts[0].register_forward_pre_hook, self._enter_experts, with_kwargs=True)
        if ends:
            self._hook(block.experts[-1].register_forward_hook, self._computed)
        if reading is None and block.layer is not None:
            inside = set(block.module.modules()) if block.module is not block.layer else {block.layer}
            for module in set(block.layer.modules()) - inside:
                if all(each.ndim < 2 for each in module.parameters()):
                    self._hook(module.register_forward_hook, self._keep_normed)

    def _hook(self, register: Callable[..., Any], hook: Callable[..., Any], **options: Any) -> None:
        self._handles.append(register(hook, **options))

    def disarm(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._unwatch()

    def open(self) -> None:
        """Begin a pass."""
        self._unwatch()
        self.seen = Seen()
        self._outputs = []
        self._asked = False

    def learn(self) -> None:
        """After the first pass: see whether a few plain hooks are enough.

        They are where picks and weights are positional arguments of the experts, or the picks what ``topk`` chose
        inside the router; scores are what the router or its projection returns, or what ``topk`` saw in the router;
        and nothing changed any of these after they were kept.
        """
        reading, kept = self.reading, self._first
        self._first = []
        if reading is None or not kept or reading.logits not in ("router", "projection"):
            return
        if reading.picks == "router" or (reading.watches and not reading.in_router):
            return
        places = [each for each in (reading.pick_at, reading.weight_at) if each is not None]
        self.plain = all(isinstance(at, int) for at in places) and all(
            bool((now == before).all()) for now, before in kept
        )
        if self.plain:
            self.seen, self._outputs = Seen(), []

    def _begin(self, module: Any, args: Any) -> None:
        if self.reading is None or not self.reading.in_router:
            self._start_watch()

    def _start_watch(self) -> None:
        if self._watch is None and (self.reading is None or self.reading.watches):
            self._watch = Watch(self.block.count).__enter__()

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.__exit__(None, None, None)
            self.seen.choices = self._watch.seen
            self._watch = None

    def _enter_router(self, module: Any, args: Any, kwargs: Any) -> None:
        self._start_watch()  # a block whose forward is not what runs, such as a mixture of attention heads
        if self._watch is not None:
            self._watch.in_router = True
        tensors = tensors_of([*args, *kwargs.values()])
        self.seen.given = tensors[0] if tensors else None
        self.seen.call = args, kwargs

    def _leave_router(self, module: Any, args: Any, output: Any) -> None:
        self.seen.router = tensors_of(output)
        if self.reading is None:
            self._returned = output
        if self._watch is not None:
            self._watch.in_router = False
            if self.reading is not None and self.reading.in_router:
                self._unwatch()

    def _project(self, module: Any, args: Any, output: Any) -> None:
        self.seen.projected = output

    def _keep_normed(self, module: Any, args: Any, output: Any) -> None:
        tensors = tensors_of(output)
        given = tensors_of(args)
        if tensors and len(tensors) == 1 and given:
            self._outputs.append((module, given[0], tensors[0]))

    def _enter_experts(self, module: Any, args: Any, kwargs: Any) -> Any:
        given = dict(enumerate(args)) | kwargs
        self.seen.experts = {key: value for key, value in given.items() if hasattr(value, "dtype")}
        self._unwatch()
        self._decide()
        assert self.reading is not None
        instead = self._tell()
        if instead is None:
            return None
        for key, value in zip((self.reading.pick_at, self.reading.weight_at), instead, strict=True):
            given[key] = value.reshape(given[key].shape).to(given[key].dtype)
        return tuple(given[i] for i in range(len(args))), {name: given[name] for name in kwargs}

    def _finish(self, module: Any, args: Any, output: Any) -> None:
        self._unwatch()
        if output is None:
            return  # the block failed
        if not self._asked:
            self._decide()
            self._tell()
        self._end(self)

    def _computed(self, module: Any, args: Any, output: Any) -> None:
        self._end(self)  # the block's own end, where its forward runs, comes later and counts

    def _twice(self) -> str:
        return f"{self.block.path}: ran twice in one forward pass, which a trace cannot hold"

    def _decide(self) -> None:
        if self.reading is None:
            self.reading = decide(self.block, self.seen)
            self.norm = self._find_norm()
            args, kwargs = self.seen.call
            if len(args) == 1 and not kwargs and args[0] is self.seen.given:
                self.given_dims, self.given_type = args[0].ndim, args[0].dtype

    def _find_norm(self) -> Any:
        """The module whose output the router was given."""
        given = self.seen.given
        for module, before, output in reversed(self._outputs):
            if given is not None and output.numel() == given.numel() and _same(output, given):
                self.normed = before.detach(), output.detach()
                return module
        return None

    def _tell(self) -> Any:
        """Hand over what this pass picked."""
        if self._asked:
            raise InputError(self._twice())
        self._asked = True
        reading, seen = self.reading, self.seen
        assert reading is not None
        if reading.picks == "topk":
            picks, weights = seen.choices[-1].ids, None
        else:
            held: Any = seen.experts if reading.picks == "experts" else seen.router
            if not held:
                raise InputError(f"{self.block.path}: its {reading.picks} did not run in this forward pass")
            picks = held[reading.pick_at]
            weights = None if reading.weight_at is None else held[reading.weight_at]
        scores = self.scores(seen)
        if self._full and not self._first:
            given = [self._whole_scores(), *([scores] if reading.chosen else [])]
            self._first = [(each, each.clone()) for each in given]
        width = picks.shape[-1]
        weights = None if weights is None else flat(weights, width)
        return self._ask(self, flat(picks, width), weights, scores)

    def _whole_scores(self) -> Any:
        """The scores as the scorer returned them; notes where they were."""
        reading, seen = self.reading, self.seen
        if reading is None or reading.logits == "projection":
            return seen.projected
        if reading.logits != "router":
            return seen.given
        value = seen.router[reading.logit_at]
        if isinstance(self._returned, (tuple, list)):
            self._position = next(i for i, each in enumerate(self._returned) if each is value)
        return value

    def scores(self, seen: Seen) -> Any:
        """Scores of a pass, as the reading says: logits, or what the selection saw.

        Parameters
        ----------
        seen : Seen
            What the hooks saw.

        Returns
        -------
        torch.Tensor
            [rows, E].
        """
        reading = self.reading
        assert reading is not None
        if reading.chosen and seen.choices:
            return flat(seen.choices[-1].scores, self.block.count)
        return self.logits(seen)

    def logits(self, seen: Seen | None = None) -> Any:
        """Logits of a pass before any bias of the selection.

        Parameters
        ----------
        seen : Seen, optional
            What the hooks saw; of the present pass by default.

        Returns
        -------
        torch.Tensor
            [rows, E].
        """
        reading, seen = self.reading, self.seen if seen is None else seen
        assert reading is not None
        if reading.logits == "projection":
            return flat(seen.projected, self.block.count)
        if reading.logits == "linear":
            return project(self.block, seen.given, reading.wide)
        value = flat(seen.router[reading.logit_at], self.block.count)
        return value.float().log() if reading.logits == "log" else value


def tensors_of(output: Any) -> list[Any]:
    """List the tensors of a module's output or arguments, in order."""
    items = output if isinstance(output, (tuple, list)) else [output]
    return [each for each in items if hasattr(each, "dtype") and hasattr(each, "shape")]


def _same(a: Any, b: Any) -> bool:
    """Whether two tensors of one size are one, or hold the same values."""
    return a.data_ptr() == b.data_ptr() or bool((a.reshape(-1).float() == b.reshape(-1).float()).all())
