"""How long a look-up takes: warm in process, and with the import in a fresh interpreter.

    python -m benchmarks.lookup

Asked for: 50 µs warm, 10 ms with import over a bare interpreter. Neither may load wgpu or Optuna.
"""

import json
import statistics
import subprocess
import sys
import time

IMPORT = """
import time
start = time.perf_counter()
from autotune import GemmProblem, best_config
answer = best_config(GemmProblem(m=1024, n=1024, k=1024), device="nvidia/hopper")
took = time.perf_counter() - start
import json, sys
heavy = [name for name in ("wgpu", "optuna", "numpy", "jinja2") if name in sys.modules]
print(json.dumps([took, heavy, answer.level]))
"""


def fresh() -> tuple[float, list[str]]:
    """Seconds for import and first look-up in a new interpreter, and what heavy modules that loaded."""
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    took, heavy, _ = json.loads(done.stdout)
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
    runs = [fresh() for _ in range(15)]
    print(f"warm: {statistics.median(warm() for _ in range(5)) * 1e6:.1f} µs")
    took = sorted(took for took, _ in runs)
    print(f"import and look-up: median {statistics.median(took) * 1e3:.1f} ms, best {took[0] * 1e3:.1f} ms")
    print(f"heavy modules loaded: {', '.join(runs[0][1]) or 'none'}")


if __name__ == "__main__":
    main()
