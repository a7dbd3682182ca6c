"""What a trace says about the retention it was recorded under, and the refusal of anything looser.

The trace format has no field for it. Two places are read, both optional: ``policy.retention`` in trace.json
(the retention parts of a policy spec), and the engine's two settings in ``engine.config``. A trace that says
neither is held to its rows alone (``replay.retain.decide``).
"""

from collections.abc import Mapping
from typing import Any

from replay.errors import InputError
from replay.retain.parse import SETTINGS, parse_retention, read_settings
from replay.retain.policy import Retention


def recorded_retention(
    policy: Mapping[str, Any] | None, engine: Mapping[str, Any] | None
) -> Retention | None:
    """Read the retention in force when a trace was recorded.

    Parameters
    ----------
    policy, engine : mapping or None
        The fields of that name in trace.json.

    Returns
    -------
    Retention or None
        What was in force, as far as the trace tells (a flat floor that it does not tell counts as 0); None
        where it tells nothing.

    Raises
    ------
    InputError
        ``policy.retention`` is not the retention part of a policy spec.
    """
    spec = (policy or {}).get("retention")
    if spec is not None:
        if not isinstance(spec, str):
            raise InputError(f"trace.json: policy.retention is {spec!r}; expected a text such as 'flat:0.35'")
        return parse_retention(spec)
    config = (engine or {}).get("config")
    known = config if isinstance(config, dict) else {}
    settings = {name: str(known[name]) for name in SETTINGS if name in known}
    return read_settings(settings)[0] if settings else None


def require_recorded(policy: Retention, recorded: Retention | None, steps: int) -> None:
    """Refuse a policy that may keep a draft which the recorded one dropped.

    Parameters
    ----------
    policy : Retention
        The policy to replay.
    recorded : Retention or None
        What was in force, if known.
    steps : int
        Drafts of the longest round.

    Raises
    ------
    InputError
        The policy is looser: rounds would have been longer than their record.
    """
    if recorded is not None and policy.gated and policy.looser_than(recorded, steps):
        raise InputError(
            f"{policy.name}: looser than {recorded.name}, which the trace was recorded under; the rows it "
            "would keep are not there; choose a tighter policy"
        )
