"""How long a look-up takes: warm in process, and with the import in a fresh interpreter.

    python -m benchmarks.lookup

Asked for: 50 µs warm, 10 ms with import over a bare interpreter. Neither may load wgpu or Optuna. The part of
the import that is not ours to shorten is timed too: msgspec and two modules of the standard library.
"""

import json
import os
import statistics
import subprocess
import sys
import time

TIMED = """
import time
start = time.perf_counter()
{}
took = time.perf_counter() - start
import json, sys
heavy = [name for name in ("wgpu", "optuna", "numpy", "jinja2") if name in sys.modules]
print(json.dumps([took, heavy]))
"""
LOOK_UP = """
from autotune import GemmProblem, best_config
best_config(GemmProblem(m=1024, n=1024, k=1024), device="nvidia/hopper")
"""
NOT_OURS = "import msgspec, pathlib, hashlib"
RUNS = 25


def fresh(code: str) -> tuple[float, list[str]]:
    """Seconds for this code in a new interpreter, and what heavy modules that loaded."""
    # modules are compiled once and kept, as they are for users
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", TIMED.format(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    took, heavy = json.loads(done.stdout)
    return took, heavy


def warm() -> float:
    """Seconds for one look-up that was asked before."""
    from autotune import GemmProblem, best_config

    problem = GemmProblem(m=1024, n=1024, k=1024)
    best_config(problem, device="nvidia/hopper")
    start = time.perf_counter()
    for _ in range(2000):
        best_config(problem, device="nvidia/hopper")
    return (time.perf_counter() - start) / 2000


def main() -> None:
    """Print both."""
    print(f"warm: {statistics.median(warm() for _ in range(5)) * 1e6:.1f} µs")
    _, heavy = fresh(LOOK_UP)  # compiles what is not compiled yet
    runs = [[fresh(code)[0] * 1e3 for code in (LOOK_UP, NOT_OURS)] for _ in range(RUNS)]
    for what, took in zip(("import and look-up", f"{NOT_OURS} alone"), zip(*runs, strict=True), strict=True):
        print(f"{what}: median {statistics.median(took):.1f} ms, best {min(took):.1f} ms")
    print(f"heavy modules loaded: {', '.join(heavy) or 'none'}")


if __name__ == "__main__":
    main()
