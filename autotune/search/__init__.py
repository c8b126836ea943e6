"""The search: which point to measure next. Only `study.py` and `borrowed.py` know Optuna."""

from autotune.search.board import Board, Strategy
from autotune.search.importance import importance
from autotune.search.samplers import DEFAULT, SAMPLERS, make
from autotune.search.shared import SharedStudy
from autotune.search.study import Search

__all__ = ["DEFAULT", "SAMPLERS", "Board", "Search", "SharedStudy", "Strategy", "importance", "make"]
