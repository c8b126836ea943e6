"""A kernel family without kernels, for tests of what is generic."""

from collections.abc import Iterator, Mapping
from math import inf, log2
from typing import Annotated, Any, NoReturn

from msgspec import Meta, structs

from autotune.errors import InvalidProblem
from autotune.kernels.base import Family, Resources
from autotune.limits import base_profile
from autotune.model import Config, DeviceProfile, Measurement, Problem, Size


class FakeProblem(Problem, frozen=True, kw_only=True):
    m: Size
    n: Size = 64
    kind: str = "plain"


class Square(Config, frozen=True, kw_only=True, tag="square"):
    tile: Annotated[int, Meta(ge=1, le=256)]


class Fast(Config, frozen=True, kw_only=True, tag="fast"):
    tile: Annotated[int, Meta(ge=1, le=256)]
    half: bool = False


class FakeFamily(Family):
    name = "fake"
    problem_type = FakeProblem
    config_types = {"square": Square, "fast": Fast}  # noqa: RUF012
    options = ()
    rules: Mapping[str, Any] = {}

    def check_problem(self, problem: FakeProblem) -> None:
        if problem.m > 1 << 20:
            raise InvalidProblem(f"m = {problem.m} is too large")

    def label(self, problem: FakeProblem) -> str:
        return f"{problem.m}x{problem.n}-{problem.kind}"

    def refusals(self, problem: FakeProblem, config: Square | Fast) -> Iterator[str]:
        if isinstance(config, Fast) and problem.n % config.tile:
            yield "n not a multiple of the tile"

    def resources(self, problem: FakeProblem, config: Square | Fast) -> tuple[Resources, ...]:
        half = isinstance(config, Fast) and config.half
        needs = Resources(
            workgroup_size=(config.tile, config.tile, 1),
            workgroup_bytes=0,
            workgroups=1,
            binding_bytes=(4 * problem.m,),
            features=("shader-f16",) if half else (),
        )
        return (needs,)

    def default(self, *_: Any) -> Config:
        return Square(tile=8)

    def baseline(self, *_: Any) -> Config:
        return Square(tile=1)

    def distance(self, problem: FakeProblem, other: FakeProblem) -> float:
        if problem.kind != other.kind:
            return inf
        return abs(log2(problem.m / other.m)) + abs(log2(problem.n / other.n))

    def _absent(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    problem_from_options = plan = flops = neighbours = inputs = reference = tolerance = exact_up_to = _absent


FAKE = FakeFamily()

RTX_3080 = structs.replace(
    base_profile(),
    name="NVIDIA GeForce RTX 3080",
    vendor="nvidia",
    architecture="ampere",
    vendor_id=0x10DE,
    device_id=0x2206,
    backend="vulkan",
    adapter_type="discrete",
    compiler="naga",
    runtime="wgpu-native 29",
    driver="550.1",
    features=("shader-f16",),
    limits={**base_profile().limits, "maxComputeInvocationsPerWorkgroup": 1024},
)


def device(**changes: Any) -> DeviceProfile:
    """An RTX 3080 with some fields changed."""
    return structs.replace(RTX_3080, **changes)


def seconds(value: float, spread: float = 0.01, **changes: Any) -> Measurement:
    """A measurement with this median and relative interquartile range."""
    low, high = value * (1 - spread / 2), value * (1 + spread / 2)
    made = Measurement(seconds=value, low=low, high=high, samples=15, batch=4, clock="gpu")
    return structs.replace(made, **changes)
