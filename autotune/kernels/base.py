"""What a kernel family must say about itself; everything generic asks through this.

To add a family: a package here with a subclass of `Family`, its templates, its search space, and its
name in `autotune.kernels.KERNELS`. The CLI command, the tuner, the cache, the export and
the correctness tests (tests/test_families.py) follow from it. What the docstrings here ask for, those
tests check.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from autotune.errors import AutotuneError
from autotune.model import Config, DeviceProfile, Plan, Problem, SubgroupMatrix

if TYPE_CHECKING:  # the look-up path must not import numpy
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]
    Float64 = NDArray[np.float64]


class Option(Struct, frozen=True):
    """One command-line option of a family's problem.

    `kind` is `int`, `float`, `bool` or a tuple of choices. Without a default the value is None where the
    option is not given, and `problem_from_options` says whether it may be.
    """

    name: str
    help: str
    kind: type[int] | type[bool] | type[float] | tuple[str, ...]
    default: int | bool | float | str | None = None


Parameters = Mapping[str, Any]
"""Parameters of a config by name, all of them or those chosen so far."""


class Rule(Struct, frozen=True):
    """A condition that legal configs of a variant meet, on any device.

    It names the parameters it reads, so that enumeration applies it as soon as those are chosen and
    skips everything below (constraint-based spaces: Rasch et al., "Efficient auto-tuning of parallel
    programs with interdependent tuning parameters via ATF", TACO 2021).
    """

    parameters: tuple[str, ...]
    """One at least: a rule about the problem alone names the variant's first parameter."""
    reason: str
    holds: Callable[[Any, Parameters], bool]
    """Takes the problem and the parameters."""
    needed: bool = True
    """False where the rule only spares the search what is of no use: results would be right all the same."""


class Resources(Struct, frozen=True):
    """What a pass needs of a device, known without rendering it."""

    workgroup_size: tuple[int, int, int]
    """Invocations of a workgroup in x, y and z."""
    workgroup_bytes: int
    """Workgroup memory of a workgroup."""
    workgroups: int
    """All of them, before they are spread over x and y."""
    binding_bytes: tuple[int, ...]
    """Size of each storage binding."""
    features: tuple[str, ...] = ()
    """Optional WebGPU features, by name."""
    subgroup_size: int = 0
    """Lanes that a subgroup must have; 0 for any number."""
    subgroup_matrix: SubgroupMatrix | None = None
    """What it has matrix units multiply."""


class Family(ABC):
    """A kernel family: an operation, its problems, its variants and their rules."""

    name: str
    """Of the CLI command, the templates' folder, the search space and the entries in the cache."""
    problem_type: type[Problem]
    config_types: Mapping[str, type[Config]]
    """The variants: the type of their configs by its tag."""
    options: tuple[Option, ...]
    """What the CLI asks for, in the order in which it is shown."""
    samples: Mapping[str, Problem]
    """A small problem of each kind (element types), by the kind's name."""
    rules: Mapping[str, tuple[Rule, ...]]
    """Rules of each variant that has any."""
    weightless: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Parameters of a variant that `resources` do not depend on, so that an enumeration checks the limits
    once for all their values. It only saves time."""

    @abstractmethod
    def problem_from_options(self, values: Mapping[str, Any]) -> Problem:
        """The problem for the values of all `options` by name. Raises InvalidProblem with one clear line."""

    @abstractmethod
    def check_problem(self, problem: Any) -> None:
        """Raise InvalidProblem where sizes or index products exceed what WGSL can index."""

    @abstractmethod
    def label(self, problem: Any) -> str:
        """Short name of a problem, as in `1024x1024x1024-f32`; used in file names and tables. Problems that
        differ have labels that do: an entry is filed under its label. Fractions are written by
        `sizes.number`."""

    def refusals(self, problem: Any, config: Config) -> Iterator[str]:
        """Reasons why the config is not legal for the problem, whatever the device; none where it may be."""
        parameters = config.parameters()
        for rule in self.rules.get(config.variant, ()):
            if not rule.holds(problem, parameters):
                yield rule.reason

    def unfit(self, problem: Any, config: Config) -> str | None:
        """Why the config's results for the problem need not be right: the first needed rule that it breaks.
        None where they must be right."""
        parameters = config.parameters()
        rules = (rule for rule in self.rules.get(config.variant, ()) if rule.needed)
        return next((rule.reason for rule in rules if not rule.holds(problem, parameters)), None)

    def device_rules(self, variant: str, problem: Any, profile: DeviceProfile) -> tuple[Rule, ...]:
        """What the device's limits would refuse whatever the other parameters are. An enumeration of configs
        asks these rules beside those of the variant, and spares itself what lies below."""
        return ()

    @abstractmethod
    def resources(self, problem: Any, config: Any) -> tuple[Resources, ...]:
        """What each pass of a legal config needs, for the check against the device's limits: the same as
        `limits.needs` reads off the rendered plan, known without rendering it."""

    @abstractmethod
    def default(self, problem: Any, profile: DeviceProfile | None) -> Config:
        """The portable default: legal for every problem, wherever WebGPU's base limits hold."""

    @abstractmethod
    def baseline(self, problem: Any, profile: DeviceProfile | None) -> Config:
        """The naive config that speed-ups are told against: legal for every problem too, unless it needs more
        memory than can be indexed. Where it is a point of the search space, it is among the first that are
        tried, and may win."""

    @abstractmethod
    def plan(self, problem: Any, config: Any, *, specialize: bool) -> Plan:
        """Render a config that is legal for the problem into WGSL passes. `specialize` bakes the sizes in: no
        uniform buffer then.

        All configs of a problem share the names, types and shapes of their input and output buffers; only
        scratch buffers may differ. Each pass's `workgroup_size` repeats what its text declares.
        """

    def cooperative(self, problem: Any, matrix: str) -> Config:
        """The config of a text on cooperative matrices of a size, `8x8` or `16x16`, in naga's dialect. `plan`
        takes it, for export alone: it is none of `config_types`, since no runtime of ours takes the dialect.
        Raises AutotuneError with one clear line where there is no such text."""
        raise AutotuneError(f"{self.name} has no text on cooperative matrices")

    @abstractmethod
    def flops(self, problem: Any) -> float:
        """Operations of the problem by the field's convention, for GFLOPS: a multiply-add counts as two."""

    @abstractmethod
    def distance(self, problem: Any, other: Any) -> float:
        """How far `other`'s best config is from answering for `problem`: 0 is the same problem,
        each doubling of one size adds about 1, infinity means it must not answer."""

    @abstractmethod
    def neighbours(self, problem: Any, config: Any) -> list[Problem]:
        """Small ragged problems on which a winner must be right too, the first ones the most telling.

        Choose them so that the config is legal: where it breaks a needed rule, a wrong result says nothing
        against it, and a winner that no neighbour said anything about counts as not verified."""

    @abstractmethod
    def inputs(self, problem: Any, seed: int, *, integers: bool) -> "dict[str, Array]":
        """Non-symmetric data for every buffer of the plan whose role is input, by its name, and for those
        outputs whose contents before the run matter, each in the type and size of its buffer. The same seed
        gives the same data. With `integers`, small whole numbers whose sums are exact in any order."""

    @abstractmethod
    def exact_up_to(self, problem: Any) -> float:
        """With whole-number inputs, results of up to this size are exact in any order of summation, and must
        be met exactly; 0 where none need be."""

    @abstractmethod
    def reference(self, problem: Any, inputs: "Mapping[str, Array]") -> "dict[str, Float64]":
        """The results in float64: for every buffer whose role is output, by its name, in its shape."""

    @abstractmethod
    def tolerance(self, problem: Any, expected: "Float64") -> "Float64":
        """Largest allowed absolute error for each element of an output of `reference`, in the same shape. It
        holds wherever results do not have to be met exactly."""
