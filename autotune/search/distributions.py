"""How Optuna knows a point: the variant as a category, and for each of its axes the place of the value."""

from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from autotune.space import Point, Space

Distributions = dict[str, BaseDistribution]


class Naming:
    """The points of a space as parameters of trials, and back."""

    def __init__(self, space: Space) -> None:
        self._variants = CategoricalDistribution(tuple(space.axes) or ("",))
        self._indices: dict[str, dict[str, IntDistribution]] = {
            variant: {f"{variant}.{axis.name}": IntDistribution(0, len(axis.values) - 1) for axis in axes}
            for variant, axes in space.axes.items()
        }

    def distributions(self, variant: str) -> Distributions:
        """The parameters of a trial of this variant."""
        return {"variant": self._variants, **self._indices[variant]}

    def highest(self, variant: str) -> dict[str, int]:
        """The last place of each axis of a variant, by the parameter's name."""
        return {name: of.high for name, of in self._indices[variant].items()}

    def params(self, point: Point) -> dict[str, Any]:
        """The parameters of the trial that stands for a point."""
        variant, indices = point
        return {"variant": variant, **dict(zip(self._indices[variant], indices, strict=True))}

    def point(self, params: Any) -> Point:
        """The point that such parameters stand for."""
        variant = str(params["variant"])
        return variant, tuple(int(params[name]) for name in self._indices[variant])
