"""The levels of the look-up: the best config known for a problem on a device, and where it came from.

From special to general: the user's entry, the shipped one, the nearest problem on this device, the
same architecture, the same vendor, the portable default. A stale entry of the user's comes after a fresh
shipped one. Each config is checked for the asked problem on the asked device before it is handed out; an
illegal one is skipped, with a note, and so is another device's without the matrix units that the default has.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from autotune import cache, layout, paths, space
from autotune.digest import template_digest
from autotune.entry import Entry
from autotune.kernels.base import Family
from autotune.model import Config, DeviceProfile, Problem

Level = Literal["user", "shipped", "nearest", "architecture", "vendor", "default"]

MAX_DISTANCE = 3.0
"""A neighbour answers up to here: each of three sizes doubled, or one size eightfold."""

_EXACT: tuple[Level, Level] = ("user", "shipped")
_THIS_DEVICE: tuple[Level, ...] = (*_EXACT, "nearest")


class Answer(Struct, frozen=True, kw_only=True):
    """A config for a problem on a device, and how much it is worth."""

    config: Config
    level: Level
    entry: Entry | None = None
    """The tuning it comes from; None for the portable default."""
    path: Path | None = None
    """File of that entry."""
    stale: tuple[str, ...] = ()
    """Why the entry may no longer be the best."""
    notes: tuple[str, ...] = ()
    """What else a person should know: entries skipped, other names, interrupted searches."""

    @property
    def fresh(self) -> bool:
        """Whether tuning again would only repeat a finished search on this device."""
        return self.level in _EXACT and not self.stale and self.entry is not None and self.entry.complete


class _Candidate(Struct, frozen=True):
    path: Path
    entry: Entry
    distance: float


def find(
    family: Family,
    problem: Problem,
    profile: DeviceProfile,
    *,
    user_root: Path | None = None,
    shipped_root: Path | None = None,
) -> Answer:
    """The best known config for a problem on a device. Always answers."""
    roots = (user_root or paths.user_cache_to_read(), shipped_root or paths.shipped_cache_dir())
    notes: list[str] = []
    seen: set[Path] = set()
    for level, candidates in _levels(family, problem, profile, roots, notes):
        for candidate in candidates:
            if candidate.path in seen:
                continue  # a device that was refused as the nearest is refused as the same vendor too
            seen.add(candidate.path)
            reason = _refusal(family, problem, profile, level, candidate.entry)
            if reason is None:
                notes += _remarks(family, problem, profile, level, candidate.entry)
                return Answer(
                    config=candidate.entry.config,
                    level=level,
                    entry=candidate.entry,
                    path=candidate.path,
                    stale=_stale(family, profile, level, candidate.entry),
                    notes=tuple(dict.fromkeys(notes)),
                )
            notes.append(f"skipped {candidate.path} ({level}): {reason}")
    return default_answer(family, problem, profile, tuple(dict.fromkeys(notes)))


def _refusal(
    family: Family, problem: Problem, profile: DeviceProfile, level: Level, entry: Entry
) -> str | None:
    """Why an entry is no answer: it cannot run here, or the untuned config is the better guess."""
    illegal = cache.illegality(family, entry, problem, profile)
    if illegal is not None:
        return f"not legal here, {illegal}"
    if level in _THIS_DEVICE or entry.device.subgroup_matrix or not profile.subgroup_matrix:
        return None
    untuned = family.resources(problem, family.default(problem, profile))
    if all(step.subgroup_matrix is None for step in untuned):
        return None
    return "tuned without matrix units, which the untuned config here uses"


def default_answer(
    family: Family, problem: Problem, profile: DeviceProfile, notes: tuple[str, ...] = ()
) -> Answer:
    """The portable default as an answer, with a note where even that cannot run."""
    config = family.default(problem, profile)
    reason = next(space.refusals(family, problem, config, profile), None)
    if reason is not None:
        notes += (f"the untuned config cannot run there: {reason}",)
    return Answer(config=config, level="default", notes=notes)


def same_hardware(one: DeviceProfile, other: DeviceProfile) -> bool:
    """Whether both are the same GPU, perhaps through another backend or compiler."""
    ids = (one.vendor_id, one.device_id)
    return all(ids) and ids == (other.vendor_id, other.device_id)


def same_vendor(one: DeviceProfile, other: DeviceProfile) -> bool:
    """Whether both are known to be of one vendor; the unknown vendor is nobody's."""
    named = bool(one.vendor) and one.vendor.casefold() == other.vendor.casefold()
    return named or (one.vendor_id != 0 and one.vendor_id == other.vendor_id)


def same_architecture(one: DeviceProfile, other: DeviceProfile) -> bool:
    """Whether both are known to be of one architecture of one vendor."""
    named = bool(one.architecture) and one.architecture.casefold() == other.architecture.casefold()
    return same_hardware(one, other) or (named and same_vendor(one, other))


_WIDER: tuple[tuple[Level, Callable[[DeviceProfile, DeviceProfile], bool]], ...] = (
    ("architecture", same_architecture),
    ("vendor", same_vendor),
)
"""Levels beyond the device's own, and which devices are of them."""


def _levels(
    family: Family, problem: Problem, profile: DeviceProfile, roots: tuple[Path, Path], notes: list[str]
) -> Iterator[tuple[Level, list[_Candidate]]]:
    """The levels in order, each with its candidates, best first. Lazy: most calls need only the first."""
    identified = bool(profile.device_id or profile.name)
    if identified:
        yield from _exact(family, problem, profile, roots, notes)
        here = [layout.device_dir(root, family.name, profile) for root in roots]
        nearest = _candidates(family, problem, _entries_in(here), notes)
        yield "nearest", sorted(nearest, key=lambda c: _rank(c, profile))
    folders = [folder for root in roots for folder in layout.device_dirs(root, family.name)]
    if not identified:
        # Where no GPU is known, nothing ranks before the same problem, and its name tells where it lies: the
        # many other entries need not be read.
        own = [folder / layout.entry_name(family, problem) for folder in folders]
        same = [c for c in _candidates(family, problem, own, notes) if c.entry.problem == problem]
        level, alike = _WIDER[0 if profile.architecture else 1]
        yield level, _alike(same, profile, alike)
    everything = _candidates(family, problem, _entries_in(folders), notes)
    for level, alike in _WIDER:
        yield level, _alike(everything, profile, alike)


def _exact(
    family: Family, problem: Problem, profile: DeviceProfile, roots: tuple[Path, Path], notes: list[str]
) -> Iterator[tuple[Level, list[_Candidate]]]:
    """The user's own entry, then the shipped one; what is stale comes after what is not."""
    stale: list[tuple[Level, list[_Candidate]]] = []
    for root, level in zip(roots, _EXACT, strict=True):
        entry = cache.exact(root, family, problem, profile, notes)
        if entry is not None:
            found = [_Candidate(layout.entry_path(root, family, problem, profile), entry, 0.0)]
            if _stale(family, profile, level, entry):
                stale.append((level, found))
            else:
                yield level, found
    yield from stale


def _alike(
    candidates: Sequence[_Candidate],
    profile: DeviceProfile,
    alike: Callable[[DeviceProfile, DeviceProfile], bool],
) -> list[_Candidate]:
    """Those of devices that are alike in this way, best first."""
    return sorted((c for c in candidates if alike(profile, c.entry.device)), key=lambda c: _rank(c, profile))


def _entries_in(folders: Sequence[Path]) -> list[Path]:
    return [path for folder in folders for path in layout.entries_in(folder)]


def _candidates(
    family: Family, problem: Problem, paths: Sequence[Path], notes: list[str]
) -> list[_Candidate]:
    """Every readable entry of these files whose problem is near enough to answer for this one."""
    found = []
    for path in paths:
        entry = cache.read(path, family, notes)
        if entry is not None:
            distance = family.distance(problem, entry.problem)
            if distance <= MAX_DISTANCE:  # false for NaN too
                found.append(_Candidate(path, entry, distance))
    return found


def _rank(candidate: _Candidate, profile: DeviceProfile) -> tuple[object, ...]:
    """Sort key: the same GPU first, then the nearest problem, then the most alike stack.

    Equals keep the order they were found in: the user's before the shipped, then by file name.
    """
    device, entry = candidate.entry.device, candidate.entry
    return (
        not same_hardware(profile, device),
        candidate.distance,
        device.compiler != profile.compiler,
        device.backend != profile.backend,
        not entry.complete,
    )


def _stale(family: Family, profile: DeviceProfile, level: Level, entry: Entry) -> tuple[str, ...]:
    # another device has another driver; only the templates compare
    same_device = level in _THIS_DEVICE
    return cache.stale_reasons(entry, profile if same_device else entry.device, template_digest(family.name))


def _remarks(
    family: Family, problem: Problem, profile: DeviceProfile, level: Level, entry: Entry
) -> Iterator[str]:
    """What a person should know about an entry that answers."""
    if level not in _THIS_DEVICE:
        yield f"tuned on {entry.device.name or 'an unnamed device'} ({entry.device.id})"
    elif entry.device.name != profile.name:
        yield f"tuned on this device under the name {entry.device.name!r}"
    if entry.problem != problem:
        yield f"tuned for {family.label(entry.problem)}"
    if not entry.complete:
        yield f"its search was interrupted after {entry.trials} trials"
    if not entry.verified:
        yield "it was not verified on ragged neighbours of its problem"
