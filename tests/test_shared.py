"""One search over several worker processes and a real PostgreSQL: nothing twice, nothing lost."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from autotune.errors import AutotuneError
from autotune.search import Search, SharedStudy, shared
from autotune.search.distributions import Naming
from autotune.search.shared import hidden
from autotune.space import Axis, Space

HERE = Path(__file__).parent
AXES = {"v": (Axis("a", tuple(range(6))), Axis("b", tuple(range(5))))}
POINTS = [("v", (a, b)) for a, b in product(range(6), range(5))]


def seconds(point) -> float:
    return 1.0 + point[1][0] + 0.1 * point[1][1]


def as_postgres() -> dict[str, int]:
    """The server refuses to run as root: the user that Debian's package made runs it then."""
    if os.geteuid() != 0:
        return {}
    import pwd

    entry = pwd.getpwnam("postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid}


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a database on a server of our own; where there is no PostgreSQL, the tests fail and say so."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.fail("PostgreSQL is missing (apt-get install postgresql)", pytrace=False)
    folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/autotune-pg.XXXXXX"], text=True).strip())
    user = as_postgres()
    if user:
        os.chown(folder, user["user"], user["group"])
    data = folder / "data"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(folder)}
    common = {"cwd": folder, "env": environment, "extra_groups": [] if user else None, **user}
    subprocess.run(
        [initdb, "-D", data, "-U", "tuner", "-A", "trust", "-E", "UTF8", "--no-sync"],
        check=True, stdout=subprocess.DEVNULL, **common,
    )  # fmt: skip
    server = subprocess.Popen(
        [Path(initdb).with_name("postgres"), "-D", data, "-k", folder, "-c", "listen_addresses="],
        stdout=subprocess.DEVNULL, stderr=(folder / "log").open("wb"), **common,
    )  # fmt: skip
    url = f"postgresql://tuner@/postgres?host={folder}"
    try:
        wait_for(url, folder / "log")
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(url: str, log: Path) -> None:
    import psycopg

    for _ in range(100):
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    pytest.fail(f"PostgreSQL does not start: {log.read_text()[-500:]}")


@pytest.fixture
def sqlite(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def proxy(sqlite) -> Iterator[str]:
    """URL of Optuna's storage proxy before a database; the process that serves it ends with the test."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve = (
        "import sys, optuna; "
        "optuna.storages.run_grpc_proxy_server("
        "optuna.storages.RDBStorage(sys.argv[1]), host='127.0.0.1', port=int(sys.argv[2]))"
    )
    server = subprocess.Popen([sys.executable, "-c", serve, sqlite, str(port)], stderr=subprocess.DEVNULL)
    yield f"grpc://127.0.0.1:{port}"
    server.kill()
    server.wait()


@pytest.fixture(params=["sqlite", "proxy"])
def storage(request) -> str:
    return request.getfixturevalue(request.param)


def joined(url: str, budget: int = 1000, **options) -> Search:
    return Search(
        Space(AXES, POINTS), shared=SharedStudy(url, "test #1", **options), budget=budget, sampler="random"
    )


def test_two_searches_share_what_they_measure(storage):
    one, two = joined(storage), joined(storage)
    asked = []
    while (point := one.ask()) is not None:
        asked.append(point)
        one.tell(point, seconds(point), "told by one")
        other = two.ask()
        if other is not None:
            asked.append(other)
            two.tell(other, seconds(other), "told by two")
    one.arrived()
    two.arrived()
    assert sorted(asked) == sorted(POINTS)
    assert one.best == two.best == (("v", (0, 0)), 1.0)


def test_what_others_told_arrives_once_with_their_words(storage):
    one, two = joined(storage), joined(storage)
    point, failed = one.ask(), one.ask()
    one.tell(point, 2.0, "fine")
    one.tell(failed, None, "bad")
    assert sorted(two.arrived(), key=str) == sorted([(point, "fine"), (failed, "bad")], key=str)
    assert two.arrived() == []
    assert one.arrived() == []


def test_a_point_that_another_measures_is_not_asked(sqlite):
    one, two = joined(sqlite), joined(sqlite)
    running = [one.ask() for _ in range(29)]
    last = two.ask()
    assert sorted([*running, last]) == sorted(POINTS)
    assert two.ask() is None
    assert two.running_elsewhere == 29


def test_the_budget_is_of_all_workers_together(sqlite):
    one, two = joined(sqlite, budget=7), joined(sqlite, budget=7)
    asked = [search.ask() for _ in range(6) for search in (one, two)]
    assert sum(point is not None for point in asked) == 7


def test_a_failed_trial_gives_its_place_in_the_budget_back(sqlite):
    search = joined(sqlite, budget=3)
    for outcome in (1.0, None, None, 2.0, 3.0):
        search.tell(search.ask(), outcome)
    assert search.ask() is None


def test_of_two_claims_for_one_point_the_first_holds(storage):
    one, two = SharedStudy(storage, "test #1"), SharedStudy(storage, "test #1")
    naming = Naming(Space(AXES, POINTS))
    claim = naming.params(POINTS[3]), naming.distributions("v"), 100
    assert one.claim(*claim) is not None
    assert two.claim(*claim) is None


def test_an_interrupted_worker_hands_its_point_back(sqlite):
    one, two = joined(sqlite), joined(sqlite)
    point = one.ask()
    two.arrived()
    assert two.running_elsewhere == 1
    one._shared.close()
    two.arrived()
    assert two.running_elsewhere == 0
    assert point in [two.ask() for _ in POINTS]


def test_studies_of_other_drivers_or_templates_are_named(sqlite):
    SharedStudy(sqlite, "gemm on x #1")
    assert SharedStudy(sqlite, "gemm on x #2").others == ("gemm on x #1",)
    assert SharedStudy(sqlite, "gemm on y #2").others == ()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "it is no URL"),
        ("postgresql://me:secret@127.0.0.1:1/none", "postgresql://me@127.0.0.1:1/none: .*refused"),
        ("sqlite:////nowhere/at/all.db", "unable to open"),
        ("grpc://127.0.0.1:1", "grpc://127.0.0.1:1: nothing answers there"),
        ("grpc://host:port", "it is not grpc://host:port"),
        ("postgresql://me:a@secret@host/none", "write an @ of the password as %40"),
        ("postgresql://me@127.0.0.1:1/none?password=secret", r"/none\?password=….*refused"),
    ],
)
def test_a_storage_that_cannot_be_used_is_one_line_without_the_password(url, words, monkeypatch):
    monkeypatch.setattr(shared, "_ANSWER_SECONDS", 1)
    with pytest.raises(AutotuneError, match=words) as caught:
        SharedStudy(url, "test #1")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_passwords_are_hidden():
    assert hidden("postgresql://me:secret@host/db") == "postgresql://me@host/db"
    assert hidden("grpc://host:1") == "grpc://host:1"
    assert hidden("mysql://me@host/db?password=a&ssl=1") == "mysql://me@host/db?password=…&ssl=…"


WORKER = """
import json, sys, time
from pathlib import Path
from types import SimpleNamespace
from test_tuner import AXES, DEFAULT, PROBLEM, FakeRuntime, paths, space
from autotune.results import Options
from autotune.space import Axis
from autotune.tuner import tune

url, folder, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
many = {"naive": (Axis("workgroup_x", tuple(range(1, 11))), Axis("workgroup_y", tuple(range(1, 9))))}
space.load_axes = lambda _family: many | {name: AXES[name] for name in ("tiled", DEFAULT.variant)}
paths.shipped_cache_dir = lambda: folder / "shipped"
tried = (folder / "tried").open("a")

def play(what, config, _sizes):
    if what == "compile" and runtime.phase == "search":
        tried.write(json.dumps(str(config)) + "\\n")
        tried.flush()
        if seed == 3 and len(runtime.tried) == 8:
            print("stuck", flush=True)
            time.sleep(600)
    if what == "run":
        time.sleep(0.02)

runtime = FakeRuntime(play=play)
options = Options(storage=url, heartbeat=2, sampler="random")
result = tune(PROBLEM, trials=1000, time_limit=300.0, seed=seed, cache_dir=folder, runtime=runtime,
              observe=runtime.watch, options=options)
print(json.dumps([str(result.config), result.measured, result.ended, result.failed]), flush=True)
"""


def start(url: str, folder: Path, seed: int) -> subprocess.Popen:
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, url, str(folder), str(seed)],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def test_four_workers_one_killed_measure_every_config_once(postgres, tmp_path):
    folders = [tmp_path / str(seed) for seed in range(4)]
    workers = [start(postgres, folder, seed) for seed, folder in enumerate(folders)]
    assert workers[3].stdout.readline() == "stuck\n"
    workers[3].kill()
    workers[3].wait()
    told = [json.loads(worker.communicate(timeout=200)[0].splitlines()[-1]) for worker in workers[:3]]

    tried = Counter(line for folder in folders for line in (folder / "tried").read_text().splitlines())
    whole = 80 + 3 + 1
    assert len(tried) == whole
    assert set(tried.values()) == {1}
    assert [one[0] for one in told] == [told[0][0]] * 3
    assert "Tiled(tile=16)" in told[0][0]  # the fastest of all
    for _, measured, ended, failed in told:
        assert (measured, ended) == (whole - 1, "exhausted")
        assert sum(failed.values()) == 1  # the killed worker's
    storage = optuna.storages.RDBStorage(postgres.replace("postgresql", "postgresql+psycopg"))
    (study,) = (one for one in storage.get_all_studies() if one.study_name.startswith("gemm "))
    trials = [t for t in storage.get_all_trials(study._study_id) if "withdrawn" not in t.user_attrs]
    assert Counter(trial.state for trial in trials) == {TrialState.COMPLETE: whole - 1, TrialState.FAIL: 1}
    assert len({json.dumps(trial.params) for trial in trials}) == whole
