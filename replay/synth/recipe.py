"""What a synthetic trace is to be like."""

from __future__ import annotations

from dataclasses import dataclass, fields

from replay.errors import InputError

_IDS = 2**16
_CELLS = 2**26  # most experts of a trace
_HELD = 2**28  # most scores of a prompt
_SPANS: dict[str, tuple[float, float]] = {
    "seed": (0, 2**63 - 1), "layers": (1, _IDS), "experts": (2, _IDS), "top_k": (1, _IDS), "sessions": (1, 2**32 - 1),
    "windows": (1, 2**31), "prompt": (0, 2**16 - 1), "popularity": (0, 10), "reuse": (0, 1), "drift": (0, 1000),
    "domains": (1, 1000), "domain_overlap": (0, 1), "recall": (0, 1), "distance": (1, _IDS), "drafts": (0, 255),
    "draft_p": (0, 1), "calibration": (0, 100), "slots": (1, _CELLS), "bonus": (0, 1000), "protect": (0, _IDS),
    "expert_bytes": (1, 2**62),
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """What a synthetic trace is to be like; see :mod:`replay.synth`.

    Attributes
    ----------
    seed : int
    layers, experts, top_k : int
        Shape of the model.
    sessions, windows, prompt : int
        Sessions, decode windows of each, and rows of its prompt (0: none).
    popularity : float
        Exponent of Zipf's law; 0: all alike.
    reuse : float or None
        Share of a token's picks that the token before picked too; None: as the popularity alone has it.
    drift : float
        Share of the experts that change places in 1,000 tokens.
    domains : int
    domain_overlap : float
        Share of the experts whose popularity is the same in every domain.
    recall : float or None
        Share of the picks among the candidates' best; None: no candidates.
    distance : int
        Layers between the projection and its target.
    scores : bool
        Whether router scores are written.
    drafts : int
        Draft rows of each decode window.
    draft_p, calibration : float
        Mean confidence, and the power that makes acceptance of it.
    slots : int or None
        Slots of the LRU arena that runs along; None: none.
    bonus : float
        Resident bonus in the router's loop; needs slots.
    protect : int
        Ranks that the bonus leaves alone.
    expert_bytes : int
    """

    seed: int = 0
    layers: int = 16
    experts: int = 64
    top_k: int = 8
    sessions: int = 8
    windows: int = 128
    prompt: int = 0
    popularity: float = 0.6
    reuse: float | None = 0.4
    drift: float = 0.0
    domains: int = 1
    domain_overlap: float = 0.0
    recall: float | None = None
    distance: int = 1
    scores: bool = False
    drafts: int = 0
    draft_p: float = 0.6
    calibration: float = 1.0
    slots: int | None = None
    bonus: float = 0.0
    protect: int = 3
    expert_bytes: int = 2**20

    def check(self) -> None:
        """Refuse what cannot be.

        Raises
        ------
        InputError
            A number outside its range, or two that do not go together.
        """
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _SPANS and value is not None:
                low, high = _SPANS[each.name]
                if not low <= value <= high:
                    flag = each.name.replace("_", "-")
                    raise InputError(f"--{flag}: expected {low} to {high}, found {value}")
        if self.top_k >= self.experts:
            raise InputError(
                f"--top-k: expected fewer picks than the {self.experts} experts, found {self.top_k}"
            )
        if self.layers * self.experts > _CELLS:
            raise InputError(f"{self.layers} layers of {self.experts} experts are more than {_CELLS}")
        if self.recall is not None and self.distance >= self.layers:
            raise InputError(
                f"--distance: expected fewer than the {self.layers} layers, found {self.distance}; give more --layers, "
                "or leave --recall out: candidates are of a later layer"
            )
        if self.bonus and self.slots is None:
            raise InputError("--bonus favours residents: give --slots for an arena that holds some")
        if self.sessions * (self.windows + 1) > 2**31:
            raise InputError("--sessions times --windows: expected at most 2147483648 windows")
        if self.prompt * self.layers * self.experts > _HELD:
            raise InputError(
                f"--prompt: rows times layers times experts may be {_HELD}; ask for a shorter prompt"
            )
