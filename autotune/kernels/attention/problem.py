"""What is asked: O = softmax(scale · Q·Kᵀ + …)·V, for each head of each entry of a batch."""

from math import isclose, sqrt
from typing import Literal, get_args

from msgspec import structs

from autotune.errors import InvalidProblem
from autotune.kernels.sizes import check_bytes, check_factor, check_size, check_sizes, number
from autotune.model import DTYPE_BYTES, MAX_SIZE, Dtype, Problem, Size

Layout = Literal["bshd", "bhsd", "qkv", "qkv-interleaved", "qkv-split"]
Mask = Literal["none", "bias", "bool"]
Broadcast = Literal["none", "b", "h", "q", "bh", "bq", "hq", "bhq"]

MASK_BYTES_A_WORD = 4
"""A boolean mask comes as bytes, four of them in a u32."""
LARGEST_FACTOR = 1e4
"""Of scale and softcap: scores stay far below what stands for a masked one."""
SMALLEST_FACTOR = 1e-20
"""Of scale and softcap that are not 0: f32 holds their quotient, and its products with Q and K."""

_FALLBACKS = {"kv_heads": "heads", "kv_seq": "seq", "v_head_dim": "head_dim", "capacity": "kv_seq"}
"""What a size of 0 stands for."""


class AttentionProblem(Problem, frozen=True, kw_only=True):
    """Softmax attention of `seq` queries to `kv_seq` keys, for `heads` heads and `batch` entries.

    Query i stands at position p = i + n − `seq`, where n is the number of keys: `kv_seq`, or with
    `lengths` the entry's own (buffer `lengths`, u32, each at most `kv_seq`). Of the keys j < n

    * `causal` leaves those with j ≤ p,
    * `window` w > 0 leaves those with |p − j| < w.

    The score of a key is scale·(q·k), `scale` 0 standing for 1/√head_dim; with `softcap` c > 0 it is
    c·tanh(scale·(q·k)/c). Then are added: with `alibi` −slope·|p − j| (one slope a head, in `head_terms`),
    and with `mask` "bias" what the buffer `mask` holds, where −1e30 and less (f16: −65504) means masked. A
    "bool" mask is bytes, of which 0 means masked. A mask is [batch][heads][seq][kv_seq]; dimensions whose
    letter is in `mask_broadcast` (b, h, q) have extent 1. With `sinks` each head has one more score (in
    `head_terms`, after the slopes), that takes its share of the softmax and adds nothing. A query that sees
    no key gives 0.

    `kv_heads` divides `heads` (0: as many): query head h reads KV head h // (heads / kv_heads). `v_head_dim`
    0 stands for head_dim, `kv_seq` 0 for seq, `capacity` 0 for kv_seq: rows of K and V that there is room for
    in each entry of the batch, of which the first kv_seq are used.

    Layouts, the last dimension being contiguous (H heads, G kv_heads, D head_dim, E v_head_dim):

    * `bshd`: Q, O [batch][seq][H][D or E], K, V [batch][capacity][G][D or E]; `bhsd`: heads before rows
    * `qkv`: one buffer, a row of which is H·D of Q, G·D of K, G·E of V
    * `qkv-split`: a row is G groups of (H/G)·D of Q, D of K, E of V
    * `qkv-interleaved`: a row is D times (H + 2·G) elements: element i of all heads together; D = E

    O is bshd for packed ones. `lse` adds an output [batch][heads][seq] in f32: the natural logarithm of the
    sum that the softmax divides by; −1e30 for a query that sees nothing.

    `dtype` is the type of Q, K, V, O and a bias; products, sums and softmax are f32. With "f16" P may be
    rounded to f16, to be multiplied by V. `accumulate` "f16" lets scaled Q be rounded as well, and short sums
    of products; the softmax and all else stay f32.
    """

    heads: Size
    seq: Size
    head_dim: Size
    batch: Size = 1
    kv_heads: int = 0
    kv_seq: int = 0
    v_head_dim: int = 0
    capacity: int = 0
    dtype: Dtype = "f32"
    layout: Layout = "bshd"
    causal: bool = False
    window: int = 0
    scale: float = 0.0
    softcap: float = 0.0
    mask: Mask = "none"
    mask_broadcast: Broadcast = "bh"
    alibi: bool = False
    lengths: bool = False
    sinks: bool = False
    lse: bool = False
    accumulate: Dtype = "f32"

    def __post_init__(self) -> None:
        """One problem has one spelling: zeros become what they stand for, and factors are floats."""
        for name, other in _FALLBACKS.items():
            if getattr(self, name) == 0:
                structs.force_setattr(self, name, getattr(self, other))
        if self.mask == "none":
            structs.force_setattr(self, "mask_broadcast", "bh")
        check_problem(self)
        for name in ("scale", "softcap"):
            structs.force_setattr(self, name, float(getattr(self, name)) + 0.0)
        if isclose(self.factor, 1 / sqrt(self.head_dim), rel_tol=1e-12):
            structs.force_setattr(self, "scale", 0.0)

    @property
    def factor(self) -> float:
        """The scale, also where it is the usual one."""
        return self.scale or 1 / sqrt(self.head_dim)

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.heads // self.kv_heads

    @property
    def packed(self) -> bool:
        """Whether Q, K and V share a buffer."""
        return self.layout.startswith("qkv")

    @property
    def row_elements(self) -> int:
        """Elements of a row of packed QKV."""
        return (self.heads + self.kv_heads) * self.head_dim + self.kv_heads * self.v_head_dim

    def mask_shape(self) -> tuple[int, int, int, int]:
        """Extents of the mask: batch, heads, queries, keys."""
        one = self.mask_broadcast if self.mask_broadcast != "none" else ""
        return (
            1 if "b" in one else self.batch,
            1 if "h" in one else self.heads,
            1 if "q" in one else self.seq,
            self.kv_seq,
        )

    def elements(self) -> dict[str, int]:
        """Elements of each buffer that the problem has, by its name; of a boolean mask, bytes."""
        rows = self.batch * self.seq
        kv_rows = self.batch * self.capacity * self.kv_heads
        found = (
            {"qkv": rows * self.row_elements}
            if self.packed
            else {
                "q": rows * self.heads * self.head_dim,
                "k": kv_rows * self.head_dim,
                "v": kv_rows * self.v_head_dim,
            }
        )
        found["o"] = rows * self.heads * self.v_head_dim
        if self.mask != "none":
            batch, heads, queries, keys = self.mask_shape()
            found["mask"] = batch * heads * queries * keys
        if self.lengths:
            found["lengths"] = self.batch
        if self.alibi or self.sinks:
            found["head_terms"] = (self.alibi + self.sinks) * self.heads
        if self.lse:
            found["lse"] = rows * self.heads
        return found


def check_problem(problem: AttentionProblem) -> None:
    """Raise InvalidProblem where sizes are below 1, do not go together or overflow an index, or a name or
    number is none that the kernels know."""
    check_sizes(problem, ("batch", "heads", "seq", "head_dim"))
    for name in _FALLBACKS:  # 0 became what it stands for
        check_size(name, getattr(problem, name), words="0 or a whole number of at least 1")
    for name, kinds in {
        "dtype": Dtype,
        "layout": Layout,
        "mask": Mask,
        "mask_broadcast": Broadcast,
        "accumulate": Dtype,
    }.items():
        if getattr(problem, name) not in get_args(kinds):
            known = ", ".join(get_args(kinds))
            raise InvalidProblem(f"{name} must be one of {known}, not {getattr(problem, name)!r}")
    if problem.accumulate not in ("f32", problem.dtype):
        raise InvalidProblem(f"{problem.dtype} elements cannot accumulate in {problem.accumulate}; use f32")
    if problem.heads % problem.kv_heads:
        raise InvalidProblem(f"{problem.heads} heads cannot share {problem.kv_heads} KV heads evenly")
    if problem.capacity < problem.kv_seq:
        raise InvalidProblem(f"a capacity of {problem.capacity} rows does not hold {problem.kv_seq} keys")
    if problem.packed and (problem.kv_seq != problem.seq or problem.capacity != problem.seq):
        raise InvalidProblem(f"{problem.layout} has as many keys as queries; kv_seq and capacity must be seq")
    if problem.layout == "qkv-interleaved" and problem.head_dim != problem.v_head_dim:
        raise InvalidProblem("qkv-interleaved needs v_head_dim = head_dim")
    check_size("window", problem.window, words="a whole number of at least 0", least=0, most=MAX_SIZE // 4)
    for name in ("scale", "softcap"):
        value = getattr(problem, name)
        check_factor(name, value, smallest=SMALLEST_FACTOR, largest=LARGEST_FACTOR, signed=False)
    for name, count in problem.elements().items():
        width = {"mask": 1 if problem.mask == "bool" else DTYPE_BYTES[problem.dtype]}.get(
            name, 4 if name in ("lengths", "head_terms", "lse") else DTYPE_BYTES[problem.dtype]
        )
        check_bytes(name, count * width)


def label(problem: AttentionProblem) -> str:
    """Short name of a problem, as in `1x16x4096x64-f32` (batch, heads, queries, head dim) or
    `1x32x1x128-f16-kvh8-kv4096-causal`."""
    p = problem
    parts = [f"{p.batch}x{p.heads}x{p.seq}x{p.head_dim}-{p.dtype}"]
    parts += [
        word
        for word, given in (
            (f"kvh{p.kv_heads}", p.kv_heads != p.heads),
            (f"kv{p.kv_seq}", p.kv_seq != p.seq),
            (f"v{p.v_head_dim}", p.v_head_dim != p.head_dim),
            (f"of{p.capacity}", p.capacity != p.kv_seq),
            (p.layout, p.layout != "bshd"),
            ("causal", p.causal),
            (f"window{p.window}", p.window),
            (f"scale{number(p.scale)}", p.scale),
            (f"softcap{number(p.softcap)}", p.softcap),
            (f"{p.mask}-{p.mask_broadcast}", p.mask != "none"),
            ("alibi", p.alibi),
            ("lengths", p.lengths),
            ("sinks", p.sinks),
            ("lse", p.lse),
            (f"sum{p.accumulate}", p.accumulate != "f32"),
        )
        if given
    ]
    return "-".join(parts)
