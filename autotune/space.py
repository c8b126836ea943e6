"""Search spaces: `search_spaces/*.toml` -> the legal configs of a problem on a device.

Values live in TOML, where people edit and comment them; legality lives in Python, where it is typed
and yields reasons. Points are index-coded, so that a sampler knows 64 lies between 32 and 128.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import prod
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct

from autotune import paths
from autotune.errors import InvalidConfig
from autotune.kernels.base import Family, Rule
from autotune.limits import refusals as limit_refusals
from autotune.model import Config, DeviceProfile, Problem

Value = int | bool | str
Point = tuple[str, tuple[int, ...]]
"""A variant and, for each of its axes, the index of the chosen value."""


class Axis(Struct, frozen=True):
    """One tunable parameter and the values it may take, in order."""

    name: str
    values: tuple[Value, ...]

    @property
    def ordered(self) -> bool:
        """Whether neighbouring indices mean neighbouring values."""
        return all(type(value) is int for value in self.values)


Axes = Mapping[str, tuple[Axis, ...]]


class Space:
    """The legal points of a problem on a device, and why the others were refused."""

    def __init__(self, axes: Axes, points: Iterable[Point], refused: Mapping[str, int] | None = None):
        self.axes = axes
        self.points = tuple(points)
        self.refused = Counter(refused or {})
        self._members = frozenset(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __contains__(self, point: Point) -> bool:
        return point in self._members

    @cached_property
    def used(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """For each variant with legal points, and each of its axes, the indices that these have, ascending.

        Rules and limits often leave few of an axis's values, or none of a variant: what is left is the space.
        """
        by_variant: dict[str, list[tuple[int, ...]]] = {}
        for variant, indices in self.points:
            by_variant.setdefault(variant, []).append(indices)
        return {
            variant: tuple(
                tuple(sorted(set(map(itemgetter(position), rows))))
                for position in range(len(self.axes[variant]))
            )
            for variant, rows in by_variant.items()
        }

    def neighbours(self, point: Point) -> list[Point]:
        """Legal points that differ on one axis: by one step between values that legal points have where the
        axis is ordered, by some where not."""
        variant, indices = point
        found = []
        for position, (axis, used) in enumerate(zip(self.axes[variant], self.used[variant], strict=True)):
            here = indices[position]
            reach = 1 if axis.ordered else _REACH
            below, above = bisect_left(used, here), bisect_right(used, here)
            for step in (*used[max(below - reach, 0) : below], *used[above : above + reach]):
                other = (variant, (*indices[:position], step, *indices[position + 1 :]))
                if other in self._members:
                    found.append(other)
        return found


_REACH = 32
"""Places around a value of an unordered axis that count as near: such an axis may have thousands of them."""

START = "start"
"""Key of the configs to start a search with, beside the variants."""


def load_axes(family: Family) -> Axes:
    """Read the family's TOML: one table a variant, one array a parameter.

    Raises InvalidConfig where there is no variant, or a variant or parameter is unknown, missing, empty or of
    a wrong type.
    """
    path, tables = _read(family)
    variants = {variant: table for variant, table in tables.items() if variant != START}
    if not variants:
        raise InvalidConfig(f"{path} lists no variant; {family.name} has {', '.join(family.config_types)}")
    return {variant: _variant_axes(family, variant, table, path) for variant, table in variants.items()}


def load_starts(family: Family) -> list[Config]:
    """Configs that were best somewhere, to start a search with: the TOML's array of tables `start`.

    Raises InvalidConfig where one is not a config of the family.
    """
    path, tables = _read(family)
    starts: list[Config] = []
    for table in tables.get(START, []):
        parameters = {name: value for name, value in table.items() if name != "variant"}
        try:
            starts.append(config_from(family, str(table.get("variant")), parameters))
        except InvalidConfig as error:
            raise InvalidConfig(f"{path}: [[{START}]] number {len(starts) + 1}: {error}") from error
    return starts


def restricted(axes: Axes, only: Mapping[str, Collection[str]]) -> Axes:
    """The axes with some parameters, or the variant, kept to values given as texts, by name.

    Raises InvalidConfig where no variant has such a parameter or value, or none has all of them.
    """
    kept = dict(axes)
    for name, texts in only.items():
        if name == "variant":
            known = set(axes)
            kept = {variant: of for variant, of in kept.items() if variant in texts}
        else:
            of_name = [axis for of in axes.values() for axis in of if axis.name == name]
            known = {_text(value) for axis in of_name for value in axis.values}
            kept = {variant: tuple(_kept(axis, name, texts) for axis in of) for variant, of in kept.items()}
            kept = {variant: of for variant, of in kept.items() if all(axis.values for axis in of)}
        if not known:
            raise InvalidConfig(f"no variant of the search space has a parameter {name!r}")
        unknown = sorted(set(texts) - known)
        if unknown:
            raise InvalidConfig(f"{name} is never {', '.join(unknown)}; it is {', '.join(sorted(known))}")
    wanted = [name for name in only if name != "variant"]
    lacked = [name for name in wanted if not any(axis.name == name for of in kept.values() for axis in of)]
    if lacked or not kept:
        asked = " ".join(f"{name}={','.join(texts)}" for name, texts in only.items())
        why = f": {', '.join(kept)} has no {lacked[0]}" if kept and lacked else ""
        raise InvalidConfig(f"no variant has all of {asked}{why}")
    return kept


def within(config: Config, only: Mapping[str, Collection[str]]) -> bool:
    """Whether a config is one of those that `restricted` keeps."""
    chosen = {name: _text(value) for name, value in config.parameters().items()}
    chosen["variant"] = config.variant
    return all(chosen.get(name) in (None, *texts) for name, texts in only.items())


def _kept(axis: Axis, name: str, texts: Collection[str]) -> Axis:
    if axis.name != name:
        return axis
    return Axis(name, tuple(value for value in axis.values if _text(value) in texts))


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(family: Family) -> tuple[str, dict[str, Any]]:
    import tomllib  # a look-up does without

    path = paths.search_spaces_dir() / f"{family.name}.toml"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not TOML, or not UTF-8
        raise InvalidConfig(f"cannot read the search space {path}: {error}") from error
    starts = tables.get(START, [])
    if not isinstance(starts, list) or not all(isinstance(table, dict) for table in starts):
        raise InvalidConfig(f"{path}: {START} must be an array of tables, each a variant and its parameters")
    return str(path), tables


def _variant_axes(family: Family, variant: str, table: Any, where: str) -> tuple[Axis, ...]:
    config_type = family.config_types.get(variant)
    if config_type is None:
        known = ", ".join(family.config_types)
        raise InvalidConfig(f"{where}: unknown variant [{variant}]; {family.name} has {known}")
    names = config_type.__struct_fields__
    if not isinstance(table, dict) or set(table) != set(names):
        raise InvalidConfig(f"{where}: [{variant}] must list exactly these parameters: {', '.join(names)}")
    for name, values in table.items():
        if not isinstance(values, list) or not values or len(values) != len(set(map(repr, values))):
            raise InvalidConfig(f"{where}: [{variant}] {name} must be a non-empty list of different values")
    axes = tuple(Axis(name, tuple(table[name])) for name in names)
    for axis in axes:  # every value must pass the config's own type, with the others at their first value
        for value in axis.values:
            first = {other.name: other.values[0] for other in axes}
            try:
                config_from(family, variant, first | {axis.name: value})
            except InvalidConfig as error:
                raise InvalidConfig(f"{where}: [{variant}] {axis.name} = {value!r}: {error}") from error
    return axes


def config_from(family: Family, variant: str, parameters: Mapping[str, Any]) -> Config:
    """A config from untrusted names and values. Raises InvalidConfig where they do not fit."""
    config_type = family.config_types.get(variant)
    if config_type is None:
        raise InvalidConfig(f"unknown {family.name} variant {variant!r}")
    try:
        return msgspec.convert({**parameters, "variant": variant}, config_type)
    except msgspec.ValidationError as error:
        raise InvalidConfig(str(error)) from error


def config_at(family: Family, axes: Axes, point: Point) -> Config:
    """The config that a point stands for."""
    variant, indices = point
    chosen = {axis.name: axis.values[index] for axis, index in zip(axes[variant], indices, strict=True)}
    return family.config_types[variant](**chosen)


def point_of(axes: Axes, config: Config) -> Point | None:
    """The point that stands for a config, or None where the space lacks one of its values."""
    if config.variant not in axes:
        return None
    parameters = config.parameters()
    indices = []
    for axis in axes[config.variant]:
        if parameters[axis.name] not in axis.values:
            return None
        indices.append(axis.values.index(parameters[axis.name]))
    return config.variant, tuple(indices)


def refusals(family: Family, problem: Problem, config: Config, profile: DeviceProfile) -> Iterator[str]:
    """Reasons why the config cannot run this problem on this device; none when it is legal.

    The first rule that it breaks, as later ones may divide by what that one keeps above zero. Else every
    limit: resources are only defined for a config whose geometry makes sense.
    """
    broken = next(iter(family.refusals(problem, config)), None)
    if broken is not None:
        yield broken
    else:
        yield from limit_refusals(family.resources(problem, config), profile)


def legal(family: Family, problem: Problem, profile: DeviceProfile, axes: Axes | None = None) -> Space:
    """Enumerate the legal points of a problem on a device.

    Rules prune as soon as their parameters are chosen; every point below a refusal counts under its
    reason, without the details after a colon.
    """
    axes = load_axes(family) if axes is None else axes
    points: list[Point] = []
    refused: Counter[str] = Counter()
    for variant in axes:
        rules = (*family.device_rules(variant, problem, profile), *family.rules.get(variant, ()))
        of = axes[variant]
        weighty = [at for at, axis in enumerate(of) if axis.name not in family.weightless.get(variant, ())]
        reasons: dict[tuple[int, ...], str | None] = {}
        for indices in _obeying(family, problem, variant, of, rules, refused):
            key = tuple([indices[at] for at in weighty])
            if key not in reasons:
                config = config_at(family, axes, (variant, indices))
                reasons[key] = next(limit_refusals(family.resources(problem, config), profile), None)
            reason = reasons[key]
            if reason is None:
                points.append((variant, indices))
            else:
                refused[reason.partition(":")[0]] += 1
    return Space(axes, points, refused)


def _obeying(
    family: Family,
    problem: Problem,
    variant: str,
    axes: tuple[Axis, ...],
    rules: tuple[Rule, ...],
    refused: Counter[str],
) -> list[tuple[int, ...]]:
    """Index tuples that meet the variant's rules, in the order of the axes.

    Axis by axis: which of its values the rules that it completes allow depends on few of those chosen before,
    so it is asked once for each choice of these.
    """
    names = [axis.name for axis in axes]
    due: list[list[Rule]] = [[] for _ in axes]  # the rules that each axis completes
    for rule in rules:
        unknown = ", ".join(name for name in rule.parameters if name not in names)
        if unknown or not rule.parameters:
            raise InvalidConfig(
                f"{family.name}: the rule {rule.reason!r} of {variant} reads {unknown or 'no parameter'}; "
                f"there are {', '.join(names)}"
            )
        due[max(names.index(name) for name in rule.parameters)].append(rule)
    found: list[tuple[int, ...]] = [()]
    for depth, axis in enumerate(axes):
        read = {names.index(name) for rule in due[depth] for name in rule.parameters} - {depth}
        before = tuple(sorted(read))
        verdicts: dict[tuple[int, ...], tuple[list[int], list[str]]] = {}
        asked: Counter[tuple[int, ...]] = Counter()
        grown: list[tuple[int, ...]] = []
        for indices in found:
            key = tuple([indices[place] for place in before])
            if key not in verdicts:
                chosen = {names[at]: axes[at].values[index] for at, index in zip(before, key, strict=True)}
                verdicts[key] = _verdict(problem, axis, chosen, due[depth])
            asked[key] += 1
            grown += [(*indices, index) for index in verdicts[key][0]]
        found = grown
        below = prod(len(axis.values) for axis in axes[depth + 1 :])
        for key, times in asked.items():
            for reason in verdicts[key][1]:
                refused[reason] += times * below
    return found


def _verdict(
    problem: Problem, axis: Axis, chosen: dict[str, Value], rules: list[Rule]
) -> tuple[list[int], list[str]]:
    """Places of the values of an axis that the rules allow, and why they refuse each of the others."""
    allowed, reasons = [], []
    for index, value in enumerate(axis.values):
        parameters = chosen | {axis.name: value}
        broken = next((rule.reason for rule in rules if not rule.holds(problem, parameters)), None)
        if broken is None:
            allowed.append(index)
        else:
            reasons.append(broken)
    return allowed, reasons


def runnable(family: Family, profile: DeviceProfile) -> dict[str, str]:
    """For each kind of problem that a family has, whether its default runs on a device, or why not."""
    found = {}
    for kind, problem in family.samples.items():
        config = family.default(problem, profile)
        found[kind] = next(refusals(family, problem, config, profile), "runs")
    return found
