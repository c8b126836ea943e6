"""4-bit codes to words and back; NumPy alone."""

from typing import TYPE_CHECKING, Any

from autotune.kernels.gemm_q4.problem import CODES, ZERO_POINT

if TYPE_CHECKING:  # the look-up path must not import numpy
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def pack(codes: "ArrayLike") -> "NDArray[np.uint32]":
    """Words of eight codes each along the last axis, the lowest nibble first.

    Raises ValueError where a code is not a whole number from 0 to 15, or the axis not a multiple of 8.
    """
    import numpy as np

    given = np.asarray(codes)
    if given.ndim == 0 or given.shape[-1] % CODES:
        raise ValueError(f"codes are packed {CODES} a word, along a last axis that is a multiple of {CODES}")
    if given.dtype.kind not in "iu" or (given.size and not 0 <= given.min() <= given.max() <= 15):
        raise ValueError("codes must be whole numbers from 0 to 15")
    nibbles = given.astype(np.uint32).reshape(*given.shape[:-1], given.shape[-1] // CODES, CODES)
    words = np.zeros(nibbles.shape[:-1], np.uint32)
    for place in range(CODES):
        words |= nibbles[..., place] << np.uint32(4 * place)
    return words


def unpack(words: "NDArray[np.uint32]") -> "NDArray[np.uint8]":
    """The codes of packed words, from 0 to 15 and eight times as many along the last axis; undoes `pack`."""
    import numpy as np

    given = np.asarray(words, dtype=np.uint32)
    codes = np.empty((*given.shape, CODES), np.uint8)
    for place in range(CODES):
        codes[..., place] = given >> np.uint32(4 * place) & np.uint32(15)
    return codes.reshape(*given.shape[:-1], given.shape[-1] * CODES)


def dequantize(words: "NDArray[np.uint32]", scales: "NDArray[np.floating[Any]]") -> "NDArray[np.float64]":
    """The values (code − 8) · scale in float64: N×K for N×K/8 words and N×K/group scales.

    That is W transposed: a row holds the K values of one column of W. Raises ValueError where the two shapes
    do not go together.
    """
    import numpy as np

    rows, groups = scales.shape
    values = unpack(words).astype(np.float64).reshape(rows, groups, -1)
    values -= ZERO_POINT
    values *= scales.astype(np.float64)[:, :, np.newaxis]
    return values.reshape(rows, -1)
