"""The search: which point to measure next. `study.py`, `borrowed.py` and `shared.py` know Optuna, nobody else does."""

from autotune.search.board import Board, Strategy
from autotune.search.samplers import DEFAULT, SAMPLERS, make
from autotune.search.study import Search

__all__ = ["DEFAULT", "SAMPLERS", "Board", "Search", "Strategy", "make"]
