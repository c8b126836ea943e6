"""GEMM in float64: input data, the reference, and how far from it a right kernel may be."""

from collections.abc import Mapping
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from autotune.kernels.gemm.problem import GemmProblem

Array = NDArray[np.generic]
Float64 = NDArray[np.float64]

_KINDS: dict[str, type[np.float32] | type[np.float16]] = {"f32": np.float32, "f16": np.float16}
_UNIT = {"f32": 2.0**-24, "f16": 2.0**-11}
_SMALLEST = {"f32": 2.0**-126, "f16": 2.0**-14}
_LARGEST_WHOLE = {"f32": 2.0**24, "f16": 2.0**11}


def inputs(problem: GemmProblem, seed: int, *, integers: bool) -> dict[str, Array]:
    """Non-symmetric data by buffer name, in its element type and laid out as in memory.

    Matrices are (rows, ld), of a batch (matrices, rows, ld), with NaN in the gaps between rows. Values are
    whole numbers from -2 to 2 with `integers`, else in [-½, ½). `c` is there where beta reads it.
    """
    generator = np.random.default_rng(seed)

    def draw(shape: tuple[int, ...], dtype: str) -> Array:
        if integers:
            return generator.integers(-2, 3, size=shape).astype(_KINDS[dtype])
        values = (generator.random(shape, dtype=np.float32) - 0.5).astype(_KINDS[dtype])
        values[np.abs(values) < np.finfo(_KINDS[dtype]).tiny] = 0  # a device may read these as zero anyway
        return values

    def matrix(operand: str, dtype: str) -> Array:
        matrices, rows, cols, ld = problem.stored(operand)
        values = np.full((matrices, rows, ld), np.nan, dtype=_KINDS[dtype])
        values[:, :, :cols] = draw((matrices, rows, cols), dtype)
        return values if problem.batch > 1 else values[0]

    found = {"a": matrix("a", problem.dtype), "b": matrix("b", problem.dtype)}
    if problem.beta != 0:
        found["c"] = matrix("c", problem.output)
    if problem.bias:
        found["bias"] = draw((problem.n,), problem.dtype)
    if problem.residual:
        found["residual"] = matrix("c", problem.output)
    return found


def reference(problem: GemmProblem, given: Mapping[str, Array]) -> dict[str, Float64]:
    """C in float64 by its name, (M, ldc) or (batch, M, ldc) as in memory; gaps between rows are NaN."""

    def matrix(name: str, operand: str) -> Float64:
        matrices, rows, cols, ld = problem.stored(operand)
        return given[name].reshape(matrices, rows, ld)[:, :, :cols].astype(np.float64)

    a, b = matrix("a", "a"), matrix("b", "b")
    a = a.swapaxes(1, 2) if problem.transpose_a else a
    b = b.swapaxes(1, 2) if problem.transpose_b else b
    c = problem.alpha * (a @ b)
    if problem.beta != 0:
        c = c + problem.beta * matrix("c", "c")
    if problem.bias:
        c = c + given["bias"].astype(np.float64)
    c = _ACTIVATIONS[problem.activation](c)
    if problem.residual:
        c = c + matrix("residual", "c")
    _, _, cols, ld = problem.stored("c")
    found = np.full((problem.batch, problem.m, ld), np.nan)
    found[:, :, :cols] = c
    return {"c": found if problem.batch > 1 else found[0]}


def _relu(x: Float64) -> Float64:
    return np.maximum(x, 0.0)


def _gelu(x: Float64) -> Float64:
    return 0.5 * x * (1.0 + np.tanh(sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def _silu(x: Float64) -> Float64:
    return 0.5 * x * (1.0 + np.tanh(0.5 * x))  # x·sigmoid(x), without overflow


_ACTIVATIONS = {"none": lambda x: x, "relu": _relu, "gelu": _gelu, "silu": _silu}


def exact_up_to(problem: GemmProblem) -> float:
    """Up to what size whole-number results are exact.

    0 where none need be: where the epilogue makes fractions, or sums may pass what their type counts up to.

    Products lie in [-4, 4] and wander, so that six deviations of a partial sum are 12·√K.
    """
    fractions = problem.activation in ("gelu", "silu") or problem.alpha % 1 or problem.beta % 1
    if fractions or 12 * sqrt(problem.k) > _LARGEST_WHOLE[problem.accumulate]:
        return 0.0
    return min(_LARGEST_WHOLE[problem.output], _LARGEST_WHOLE[problem.dtype])


def tolerance(problem: GemmProblem, expected: Float64) -> Float64:
    """Largest absolute error, in the shape of `expected`: of sums of K terms, and of the stored value.

    For data in [-½, ½) partial sums grow as √K/12; each of K additions rounds its partial sum by
    up to u, at random, so errors wander by about u·K/12 (probabilistic rounding analysis: Higham
    and Mary, SIAM J. Sci. Comput. 2019). Sixteen times that covers millions of elements in any
    order of summation; one missing term is off by about 1/12, thousands of times more in f32.
    Matrix units may cut off what they add where others round: each step, of eight k at least, is then off by
    up to one ulp of the partial sum, always towards zero, which a steadily growing sum feels in proportion.
    Results below the smallest normal number may be stored as zero, and `exp` and `tanh` may be off by
    some 2⁻¹⁶ (WGSL, "Floating Point Evaluation").
    """
    summed = (
        16.0 * _UNIT[problem.accumulate] * (abs(problem.alpha) * problem.k / 12.0 + abs(problem.beta) + 1.0)
    )
    mixed = problem.dtype == "f16" and problem.accumulate == "f32"
    cut_off = 2.0 * _UNIT["f32"] * problem.k / 8.0 * np.abs(expected) if mixed else 0.0
    curved = 2.0**-14 * (1.0 + np.abs(expected)) if problem.activation in ("gelu", "silu") else 0.0
    stored = 2.0 * _UNIT[problem.output] * np.abs(expected) + _SMALLEST[problem.output]
    return np.asarray(summed + cut_off + curved + stored, dtype=np.float64)
