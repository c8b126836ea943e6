"""The values that travel between the rooms.

Everything here is frozen, holds no handles, and encodes to JSON as it stands. They are msgspec
structs rather than dataclasses because data from files must be validated field by field (types, ranges,
unknown names) where it is decoded.
"""

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

MAX_SIZE = 2**32 - 1
"""Kernels index in u32."""
Size = Annotated[int, Meta(ge=1, le=MAX_SIZE)]
Dtype = Literal["f32", "f16"]
Compiler = Literal["naga", "tint"]
Role = Literal["uniform", "input", "output", "scratch"]
Stage = Literal["limits", "compile", "run", "verify", "time", "crash", "hang"]
Clock = Literal["gpu", "wall"]

DTYPE_BYTES: dict[str, int] = {"f32": 4, "f16": 2, "u32": 4}

MATRIX_FEATURE = "chromium-experimental-subgroup-matrix"
"""The feature of kernels on matrix units. It is an experiment of Dawn's and not on the open web."""
NAGA_MATRICES = "naga-cooperative-matrix"
"""The dialect of naga (wgpu's compiler) with cooperative matrices: an experiment, for export only."""

ID = re.compile(r"([0-9a-f]{4,})-([0-9a-f]{4,})-(.*)-(naga|tint)")
"""A `DeviceProfile.id`."""


class Problem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked of a kernel family. Each family subclasses it."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="variant"):
    """What was chosen: one variant of a family and its parameters. Each variant subclasses it."""

    @property
    def variant(self) -> str:
        """Name of the variant, as it stands in templates, spaces and cache entries."""
        return str(self.__struct_config__.tag)

    def parameters(self) -> dict[str, int | bool | str]:
        """The tunable parameters by name, without the variant."""
        return structs.asdict(self)


class SubgroupMatrix(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One shape that an adapter's matrix units multiply: an m×k and a k×n matrix of `element` to `result`."""

    element: str
    result: str
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        """As it stands in tables and refusals: `f16 to f32 16×16×16`."""
        return f"{self.element} to {self.result} {self.m}×{self.n}×{self.k}"


class DeviceProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device as seen by one runtime: what it is and what it allows. Can be stored and sent.

    `features` and `limits` use the WebGPU specification's names (`shader-f16`,
    `maxComputeWorkgroupStorageSize`), whatever the runtime calls them.
    """

    name: str
    vendor: str
    architecture: str
    vendor_id: int
    device_id: int
    backend: str
    adapter_type: str
    compiler: Compiler
    runtime: str
    driver: str
    features: tuple[str, ...]
    limits: dict[str, Annotated[int, Meta(ge=0)]]
    subgroup_size: int = 0
    """Lanes per subgroup as probed by a dispatch; 0 when unknown."""
    subgroup_matrix: tuple[SubgroupMatrix, ...] = ()
    """What its matrix units multiply, where the runtime lets kernels use them."""

    @property
    def id(self) -> str:
        """Identity for results: ids, backend and compiler. Names are only aliases."""
        return f"{self.vendor_id:04x}-{self.device_id:04x}-{self.backend}-{self.compiler}"

    @property
    def is_cpu(self) -> bool:
        """Whether this is a software adapter."""
        return self.adapter_type == "cpu"


Expr = int | str | dict[str, list[Any]]
"""A size as data, so that a JavaScript host can compute it: a number, the name of a size,
`{"ceilDiv": [a, b]}`, `{"mul": [a, b, ...]}` or `{"add": [a, b, ...]}`, whose operands are expressions
themselves."""


class Buffer(Struct, frozen=True, kw_only=True):
    """One buffer of a plan, bound at `@group(0) @binding(binding)` in every pass that names it."""

    name: str
    role: Role
    element: str
    shape: tuple[Expr, ...]
    binding: int


class Pass(Struct, frozen=True, kw_only=True):
    """One dispatch: a WGSL module, its entry point, and how many workgroups it needs.

    `workgroups` counts them in one dimension; the host may split the count over x and y in any
    way with x·y ≥ workgroups, since kernels linearise the grid themselves.
    """

    wgsl: str
    entry_point: str
    workgroup_size: tuple[int, int, int]
    workgroup_bytes: int
    workgroups: Expr
    buffers: tuple[str, ...]
    only_read: tuple[str, ...] = ()
    """Of these, scratch that the pass does not write: its text declares it as read."""
    subgroup_size: int = 0
    """Lanes that a subgroup must have for the text to be right; 0 for any number."""
    subgroup_matrix: SubgroupMatrix | None = None
    """What the text has matrix units multiply."""


class Plan(Struct, frozen=True, kw_only=True):
    """What is run for one (problem, config): passes in order, and the buffers they share."""

    kernel: str
    variant: str
    sizes: dict[str, int]
    """Every size name that expressions use. Uniform values are the fields of `uniform`."""
    scalars: dict[str, float] = {}
    """Numbers that the kernel takes besides sizes, by name."""
    uniform: tuple[str, ...]
    """Fields of the uniform buffer, in order: u32 where `sizes` has the name, f32 where `scalars` has it.
    Empty when they are baked in."""
    buffers: tuple[Buffer, ...]
    passes: tuple[Pass, ...]
    features: tuple[str, ...] = ()
    multiples: dict[str, int] = {}
    """Sizes the kernel accepts: each named size must be a multiple of the number."""
    fixed: tuple[str, ...] = ()
    """Sizes that the text has as constants: it is right for these values alone."""
    dialect: str = ""
    """The dialect that texts are in, where it is one that no runtime of ours takes. Empty for WGSL."""


class Measurement(Struct, frozen=True, kw_only=True):
    """The time of one dispatch of a plan, in seconds, with its spread."""

    seconds: Annotated[float, Meta(gt=0)]
    """Median over samples."""
    low: Annotated[float, Meta(gt=0)]
    """First quartile."""
    high: Annotated[float, Meta(gt=0)]
    """Third quartile."""
    samples: Annotated[int, Meta(ge=1)]
    batch: Annotated[int, Meta(ge=1)]
    """Dispatches per sample."""
    clock: Clock

    @property
    def spread(self) -> float:
        """Interquartile range as a share of the median."""
        return (self.high - self.low) / self.seconds


class Rejection(Struct, frozen=True, kw_only=True):
    """Why a candidate has no time: the stage that refused it, and the reason in words."""

    stage: Stage
    reason: str


class Trial(Struct, frozen=True, kw_only=True):
    """One candidate and what became of it."""

    config: Config
    outcome: Measurement | Rejection
    seconds_spent: float = 0.0
