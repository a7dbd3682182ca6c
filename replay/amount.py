"""In what reads are shown: bytes, or experts where a trace does not say how large they are (1 byte stands for each)."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Amount(NamedTuple):
    """A unit of what is read.

    Attributes
    ----------
    unit : str
        Its name.
    size : float
        Bytes that it stands for.
    digits : int
        Decimals.
    """

    unit: str
    size: float
    digits: int

    def text(self, value: float) -> str:
        """Write bytes in this unit with its decimals; two figures of less than they show.

        Parameters
        ----------
        value : float
            Bytes.

        Returns
        -------
        str

        Examples
        --------
        >>> MEGABYTES.text(44_900_000), MEGABYTES.text(1234), MEGABYTES.text(0), EXPERTS.text(1234.5)
        ('44.9', '0.0012', '0.0', '1,234.50')
        """
        scaled = value / self.size
        return f"{scaled:.2g}" if 0 < abs(scaled) < 0.5 * 10**-self.digits else f"{scaled:,.{self.digits}f}"


MEGABYTES, EXPERTS = Amount("MB", 1e6, 1), Amount("experts", 1.0, 2)


def amount(sized: bool) -> Amount:
    """The unit of what is read: of a trace that says how large its experts are, or of one that does not."""
    return MEGABYTES if sized else EXPERTS


def asked(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a summary whose reads per token are those asked for, 1 byte an expert, whatever a clock made of them.

    Examples
    --------
    >>> asked({"misses_per_token": 2.0, "issued_per_token": 1.5, "read_bytes_per_token": 2.75})["read_bytes_per_token"]
    3.5
    """
    parts = [row.get(name) for name in ("misses_per_token", "issued_per_token")]
    known = [each for each in parts if each is not None]
    return {**row, "read_bytes_per_token": sum(known) if len(known) == len(parts) else None}
