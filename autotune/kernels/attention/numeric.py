"""Attention in float64: input data, the reference, and how far from it a right kernel may be."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from autotune.kernels.attention.problem import AttentionProblem
from autotune.kernels.attention.strides import mask_strides, strides

Array = NDArray[np.generic]
Float64 = NDArray[np.float64]

NO_SUM = -1e30
"""The logarithm of the sum of a row that sees no key."""
NO_BIAS = {"f32": -1e30, "f16": -65504.0}
"""Biases of no more than this mask a key."""
CHUNK = 1 << 20
"""Scores that a thread holds in float64 at a time."""
_WIDEST = 3e4
"""Width of the queries where the scale is tiny: f16 holds them."""
_KINDS: dict[str, type[np.float32] | type[np.float16]] = {"f32": np.float32, "f16": np.float16}
_UNIT = {"f32": 2.0**-24, "f16": 2.0**-11}
_SMALLEST = {"f32": 2.0**-126, "f16": 2.0**-14}
_ROUNDED_P = 2.0**-10
"""Of the usual size of results: what P in f16 may be off by."""
_SHORT_SUMS = 2.0**-7
"""Of the usual size of results: what products and short sums in f16 may be off by."""
_SPREAD = 4.0
"""Width of the data: scores then have a standard deviation of 4/3, so that the largest score of a row keeps
growing from tile to tile, and what was summed before has to be rescaled by factors far from 1."""
_LOUD = 6.0
"""How much larger than others one late key is. Every eighth query or so scores it 2⁸ times above all before
it, where kernels that put rescaling off must do it."""


def inputs(p: AttentionProblem, seed: int, *, integers: bool) -> dict[str, Array]:
    """Non-symmetric data by buffer name. What no query may see is NaN: rows past an entry's length, and room
    that is not used. With `integers`, multiples of a half."""
    generator = np.random.default_rng(seed)
    kind = _KINDS[p.dtype]

    def draw(shape: tuple[int, ...], width: float) -> NDArray[np.floating]:
        values = (generator.random(shape, dtype=np.float32) - 0.5) * np.float32(width)
        if integers and width >= 1:
            values = np.round(values * 2) / 2
        values = values.astype(kind)
        values[np.abs(values) < np.finfo(kind).tiny] = 0  # a device may read these as zero anyway
        return values

    found: dict[str, Array] = {}
    if p.lengths:
        lengths = generator.integers(0, p.kv_seq + 1, size=p.batch).astype(np.uint32)
        lengths[0] = p.kv_seq if p.batch > 1 else lengths[0]
        lengths[1:2] = 0
        found["lengths"] = lengths
    sizes = p.elements()
    names = ("qkv", "qkv", "qkv") if p.packed else ("q", "k", "v")
    for name in dict.fromkeys(names):
        found[name] = np.full(sizes[name], np.nan, dtype=kind)
    q, k, v = (_view(p, x, found[name]) for x, name in zip("qkv", names, strict=True))
    width = min(_SPREAD / (p.factor * np.sqrt(p.head_dim)), _WIDEST)
    q[:] = draw(q.shape, width)
    for values, spread in ((k, _SPREAD), (v, 1.0)):
        drawn = draw(values.shape, spread)
        for b in range(p.batch):
            keys = int(found["lengths"][b]) if p.lengths else p.kv_seq
            values[b, :, :keys] = drawn[b, :, :keys]
            if spread == _SPREAD and keys:
                values[b, :, keys * 3 // 5] *= kind(_LOUD)
    if p.mask != "none":
        found["mask"] = _mask(p, generator)
    slopes = 2.0 ** (-8.0 * (np.arange(p.heads) + 1) / p.heads) if p.alibi else np.empty(0)
    sinks = generator.random(p.heads) * 4 - 1 if p.sinks else np.empty(0)
    if p.alibi or p.sinks:
        found["head_terms"] = np.concatenate([slopes, sinks]).astype(np.float32)
    return found


def _mask(p: AttentionProblem, generator: np.random.Generator) -> Array:
    """A quarter of all keys masked, and all of them for some queries."""
    shape = p.mask_shape()
    masked = generator.random(shape) < 0.25
    masked |= generator.random((*shape[:3], 1)) < 0.1
    if p.mask == "bool":
        kept = np.where(masked, 0, generator.integers(1, 256, size=shape)).astype(np.uint8).ravel()
        return np.pad(kept, (0, -kept.size % 4)).view(np.uint32)
    kind = _KINDS[p.dtype]
    bias = (generator.random(shape, dtype=np.float32) * 4 - 2).astype(kind)
    bias[masked] = np.finfo(kind).min
    return bias.ravel()


def _view(p: AttentionProblem, x: str, flat: Array) -> NDArray[np.floating]:
    """K, V or O as [batch][head][row][element] of their buffer, Q as [batch][KV head][head of group]…"""
    s = strides(p)
    step = flat.dtype.itemsize
    element = s.get("element", 1) if x != "o" else 1
    start = s.get(f"{x}_start", 0)
    if x == "q":
        shape: tuple[int, ...] = (p.batch, p.kv_heads, p.group, p.seq, p.head_dim)
        along: tuple[int, ...] = (s["q_batch"], s["q_group"], s["q_head"], s["q_row"], element)
    else:
        heads = p.heads if x == "o" else p.kv_heads
        rows = p.seq if x == "o" else p.kv_seq
        shape = (p.batch, heads, rows, p.head_dim if x == "k" else p.v_head_dim)
        along = (s[f"{x}_batch"], s[f"{x}_head"], s[f"{x}_row"], element)
    view: NDArray[np.floating] = as_strided(flat[start:], shape, tuple(step * stride for stride in along))
    return view


def reference(p: AttentionProblem, given: Mapping[str, Array]) -> dict[str, Float64]:
    """O in float64 in the shape of its buffer, and the logarithms of sums where the problem asks for them."""
    q, k, v = (_view(p, x, given["qkv" if p.packed else x].ravel()) for x in "qkv")
    out = np.empty(p.batch * p.seq * p.heads * p.v_head_dim)
    o = _view(p, "o", out)
    lse = np.empty((p.batch, p.heads, p.seq))
    rows = max(CHUNK // p.kv_seq, 1)

    def chunk(task: tuple[int, int, int]) -> None:
        b, h, first = task
        part = slice(first, min(first + rows, p.seq))
        g, r = divmod(h, p.group)
        keys = int(given["lengths"].ravel()[b]) if p.lengths else p.kv_seq
        score = _scores(p, given, (b, h), q[b, g, r, part], k[b, g, :keys], np.arange(part.start, part.stop))
        top = score.max(axis=1, keepdims=True, initial=-np.inf)
        terms = given["head_terms"].astype(np.float64).reshape(-1, p.heads) if p.sinks else None
        if terms is not None:
            top = np.maximum(top, terms[-1, h])
        seen = np.isfinite(top)
        top = np.where(seen, top, 0.0)
        np.exp(score - top, out=score)
        total = score.sum(axis=1, keepdims=True)
        if terms is not None:
            total += np.exp(terms[-1, h] - top)
        total = np.where(seen, total, 1.0)
        o[b, h, part] = score @ v[b, g, :keys].astype(np.float64) / total
        lse[b, h, part] = np.where(seen, top + np.log(total), NO_SUM)[:, 0]

    tasks = product(range(p.batch), range(p.heads), range(0, p.seq, rows))
    with ThreadPoolExecutor() as pool:  # NumPy lets other threads run
        list(pool.map(chunk, tasks))
    shape = (
        (p.batch, p.heads, p.seq, p.v_head_dim)
        if p.layout == "bhsd"
        else (p.batch, p.seq, p.heads, p.v_head_dim)
    )
    return {"o": out.reshape(shape)} | ({"lse": lse} if p.lse else {})


def _scores(
    p: AttentionProblem,
    given: Mapping[str, Array],
    place: tuple[int, int],
    q: Array,
    k: Array,
    rows: NDArray[np.int64],
) -> Float64:
    """Scores of some queries of a head, −∞ where masked."""
    b, h = place
    keys = k.shape[0]
    score: Float64 = q.astype(np.float64) @ k.astype(np.float64).T
    score *= p.factor
    if p.softcap:
        score = p.softcap * np.tanh(score / p.softcap)
    distance = (rows + keys - p.seq)[:, None] - np.arange(keys)[None, :]
    if p.alibi:
        score -= given["head_terms"].ravel()[h].astype(np.float64) * np.abs(distance)
    if p.mask != "none":
        s = mask_strides(p)
        at = b * s["mask_batch"] + h * s["mask_head"] + (rows * s["mask_row"])[:, None] + np.arange(keys)
        if p.mask == "bool":
            score[given["mask"].ravel().view(np.uint8)[at] == 0] = -np.inf
        else:
            bias = given["mask"].ravel()[at].astype(np.float64)
            score = np.where(bias <= NO_BIAS[p.dtype], -np.inf, score + bias)
    if p.causal:
        score[distance < 0] = -np.inf
    if p.window:
        score[np.abs(distance) >= p.window] = -np.inf
    return score


def tolerance(p: AttentionProblem, expected: Float64) -> Float64:
    """Largest absolute error of each element, for data as `inputs` makes it.

    Scores are sums of head_dim products, a few units large, and off by some tens of roundings of that
    size; so are, relatively, exp2 and with it each p. O averages V, of size up to ½, with the p as
    weights, and sums of p·v round at random. Together some 10⁻⁶; twenty times that is allowed. Where
    tiles are not rescaled when the maximum grows (by factors of 2 to 100 for such data), O is off by
    tenths of its size, and where a key is missing by about |v|/n: more than 10⁻⁴ for up to thousands of
    keys. ALiBi makes scores large, which rounds them by more. Results below the smallest normal number
    may be stored as zero.

    With f16 elements, P may be rounded to f16 to be multiplied by V, as it must be on matrix units: the p
    are off by some 0.2·2⁻¹¹ of their size, at random, and O by as much of what is usual in its row, since O
    is itself a random sum of p·v; ten times that is allowed. It is as much as storing O may cost, and a
    hundredth of what a wrong rescaling does.

    Products in f16: scaled Q, P and up to sixteen sums of products are each off by some 0.3·2⁻¹¹ of their
    size, which makes scores off by a thousandth, and O by as much of what is usual in its row; eight times
    that is allowed. The score of the one large key is off by more, and the logarithm of a sum with it.
    """
    large = 4.0 * (p.seq + p.kv_seq) if p.alibi else 0.0
    short = _SHORT_SUMS if p.accumulate == "f16" else 0.0
    rounded = short or (_ROUNDED_P if p.dtype == "f16" else 0.0)
    summed = 2.0**-24 * (320.0 + large)
    if expected.ndim == 3:  # logarithms of sums
        relative = 2.0**-20 + short / 8
        return np.asarray(summed + short + relative * np.abs(expected), dtype=np.float64)
    stored = 2.0 * _UNIT[p.dtype] * np.abs(expected) + _SMALLEST[p.dtype]
    squares = np.square(expected).mean(axis=-1, keepdims=True)
    usual = np.sqrt(np.maximum(squares, np.median(squares)))
    return np.asarray(summed + stored + rounded * usual, dtype=np.float64)
