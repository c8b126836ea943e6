"""int8 matrices as the kernels read them: four a u32 along the last axis, the first in the lowest byte."""

from typing import TYPE_CHECKING

from autotune.kernels.gemm_i8.problem import PER_WORD

if TYPE_CHECKING:  # the look-up path must not import numpy
    import numpy as np
    from numpy.typing import NDArray


def pack(values: "NDArray[np.int8]") -> "NDArray[np.uint32]":
    """Words of four int8 each. Raises ValueError where the last axis is not a multiple of 4 int8."""
    import numpy as np

    if values.dtype != np.int8 or values.ndim == 0 or values.shape[-1] % PER_WORD:
        shape = "×".join(map(str, values.shape)) or "a single value"
        raise ValueError(f"needs int8 with a last axis that is a multiple of 4, not {values.dtype} {shape}")
    words = np.ascontiguousarray(values).view("<u4")
    return words.astype(np.uint32, copy=False)


def unpack(words: "NDArray[np.uint32]") -> "NDArray[np.int8]":
    """The int8 of packed words; the inverse of `pack`. Raises ValueError for anything but u32."""
    import numpy as np

    if words.dtype != np.uint32 or words.ndim == 0:
        raise ValueError(f"needs an array of u32, not {words.dtype} of {words.ndim} dimensions")
    return np.ascontiguousarray(words, dtype="<u4").view(np.int8)
