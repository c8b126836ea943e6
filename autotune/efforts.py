"""How much a tuning run may take when nobody says: profiles by name, as data."""

from msgspec import Struct

from autotune.model import DeviceProfile
from autotune.results import Budget


class Patience(Struct, frozen=True):
    """When further improvement is unlikely enough to stop."""

    promise: float
    """What the most promising untried configs together may gain, as a share of the best time."""
    asks: int
    """How many proposals in a row must promise less."""
    least: int
    """Measured configs before which a search never stops for this."""


class Profile(Struct, frozen=True):
    """An effort: budgets on a GPU and on a software adapter, and patience."""

    gpu: Budget
    cpu: Budget
    patience: Patience


EFFORTS: dict[str, Profile] = {
    "quick": Profile(
        gpu=Budget(trials=100, seconds=15.0),
        cpu=Budget(trials=25, seconds=40.0),
        patience=Patience(promise=0.005, asks=10, least=30),
    ),
    "normal": Profile(
        gpu=Budget(trials=250, seconds=32.0),
        cpu=Budget(trials=60, seconds=90.0),
        patience=Patience(promise=0.002, asks=20, least=60),
    ),
    "thorough": Profile(
        gpu=Budget(trials=2000, seconds=600.0),
        cpu=Budget(trials=300, seconds=900.0),
        patience=Patience(promise=0.0005, asks=60, least=200),
    ),
}


def budget(effort: str, profile: DeviceProfile) -> Budget:
    """What a search of this effort may take on a device."""
    return EFFORTS[effort].cpu if profile.is_cpu else EFFORTS[effort].gpu
