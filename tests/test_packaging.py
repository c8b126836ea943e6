"""What is shipped works where it lands: wheel, sdist, editable install and bare checkout."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
DATA = ("templates", "search_spaces", "cache")

pytest.importorskip("build")  # both are in the dev extra
pytest.importorskip("hatchling")


@dataclass(frozen=True)
class Install:
    """An interpreter that can import autotune, and the folder its data should come from."""

    python: Path
    data_root: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str | Path, cwd: Path) -> str:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env |= self.variables | {"AUTOTUNE_CACHE_DIR": str(cwd / "user-cache")}
        return run(*command, cwd=cwd, env=env)


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command prints; a failure shows all of it."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def new_venv(folder: Path) -> tuple[Path, Path]:
    """Interpreter and site-packages of a venv that borrows our dependencies instead of downloading them.

    Python ignores .pth files inside a folder that a .pth file names, hence an editable install of
    autotune in the interpreter at hand does not leak in.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    lent = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    (site / "borrowed.pth").write_text("\n".join(lent), encoding="utf-8")
    return python, site


def pip_install(python: Path, *what: str | Path) -> None:
    # our own dist-info may be among what is borrowed, which must not count as installed
    options = ("--quiet", "--no-deps", "--no-index", "--ignore-installed")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, *what)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist, and the wheel that was built from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, CHECKOUT, cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Path:
    (path,) = dist.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module", params=["wheel", "editable", "checkout"])
def install(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Install:
    python, site = new_venv(tmp_path_factory.mktemp(request.param) / "venv")
    if request.param == "wheel":
        pip_install(python, request.getfixturevalue("wheel"))
        return Install(python, site / "autotune" / "_data")
    if request.param == "editable":
        pip_install(python, "--no-build-isolation", "--editable", CHECKOUT)
        assert not (site / "autotune").exists()  # no copies that could go stale
        return Install(python, CHECKOUT)
    return Install(python, CHECKOUT, {"PYTHONPATH": str(CHECKOUT)})


def data_files(root: Path) -> set[str]:
    return {
        path.relative_to(root).as_posix()
        for name in DATA
        for path in (root / name).rglob("*")
        if path.is_file()
    }


def ours(path: str) -> bool:
    """Whether a data file is meant to be shipped: no leavings of a search, no hidden files."""
    return not path.startswith(("cache/studies/", "cache/device")) and "/." not in path


def test_data_is_found_from_another_folder(install: Install, tmp_path: Path) -> None:
    program = """if True:
        import json
        from autotune import paths
        found = paths.templates_dir(), paths.search_spaces_dir(), paths.shipped_cache_dir()
        print(json.dumps([str(path) for path in found]))
    """
    found = json.loads(install.run(install.python, "-c", program, cwd=tmp_path))
    assert [Path(path).resolve() for path in found] == [install.data_root.resolve() / name for name in DATA]
    assert set(filter(ours, data_files(install.data_root))) == set(filter(ours, data_files(CHECKOUT)))


def test_renders_wgsl_through_the_public_names(install: Install, tmp_path: Path) -> None:
    program = """if True:
        from autotune import best_config, render, GemmProblem
        problem = GemmProblem(m=1024, n=1024, k=1024)
        print(render(problem, best_config(problem).config).passes[0].wgsl)
    """
    assert "@compute" in install.run(install.python, "-c", program, cwd=tmp_path)


def test_console_script_knows_gemm(install: Install, tmp_path: Path) -> None:
    command = install.python.with_name("autotune")
    if install.variables:
        assert not command.exists()  # a bare checkout has none
    else:
        assert "gemm" in install.run(command, "--help", cwd=tmp_path)


def test_wheel_is_typed_and_holds_nothing_but_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "autotune/py.typed" in names
    (info,) = {name.split("/")[0] for name in names} - {"autotune"}
    assert info.endswith(".dist-info")
    assert not [name for name in names if "__pycache__" in name or not ours(name.partition("_data/")[2])]


def test_wheel_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    assert "\nName: wgsl-autotune\n" in metadata
    assert "\nLicense-Expression: MIT\n" in metadata
    assert "\nProvides-Extra: dawn\n" in metadata
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert not [line for line in needs if "extra ==" not in line and ("wgpudawn" in line or "pytest" in line)]


def test_sdist_can_be_built_and_tested(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile"} <= names
    assert {"autotune/__init__.py", "autotune/py.typed", "tests/test_packaging.py"} <= names
    assert {path for path in names if path.startswith(tuple(f"{name}/" for name in DATA))} == {
        path for path in data_files(CHECKOUT) if ours(path)
    }
