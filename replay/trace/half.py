"""float16 to float32, exactly, several times faster than a cast by numpy."""

from __future__ import annotations

import numpy as np

_STEP = 2**15  # items at once: they stay in the nearest cache
_KEPT = np.int32(np.uint32(0x8FFFE000).astype(np.int32))  # sign, exponent and mantissa of a half, 13 bits up
_SCALE = np.float32(2.0**112)  # from a half's exponent to that of a float
_SPECIAL = 0x7C00  # exponent of infinities and NaN


def widen(halves: np.ndarray, floats: np.ndarray) -> None:
    """Widen float16 to float32, every value exactly.

    A half's bits, moved up by 13, are a float of the same sign and mantissa whose exponent is 112 too small: one
    multiplication mends that, subnormals included. Infinities and NaN do not fit and are cast as numpy does.

    Parameters
    ----------
    halves : numpy.ndarray of float16, [n]
        What to widen; contiguous.
    floats : numpy.ndarray of float32, [n]
        Where to put it; contiguous.

    Examples
    --------
    >>> floats = np.empty(3, np.float32)
    >>> widen(np.array([1.5, -2.0**-24, -np.inf], np.float16), floats)
    >>> floats.tolist()
    [1.5, -5.960464477539063e-08, -inf]
    """
    for start in range(0, len(halves), _STEP):
        half, wide = halves[start : start + _STEP], floats[start : start + _STEP]
        signed, unsigned = half.view(np.int16), half.view(np.uint16)
        if signed.max() >= _SPECIAL or unsigned.max() >= 0x8000 + _SPECIAL:
            wide[:] = half
            continue
        bits = wide.view(np.int32)
        bits[:] = signed
        np.left_shift(bits, 13, out=bits)
        np.bitwise_and(bits, _KEPT, out=bits)
        np.multiply(wide, _SCALE, out=wide)
