"""GEMM on cooperative matrices, in naga's dialect: an export that no runtime here runs.

Three things stand in for a device. naga parses and validates every kind of text (where AUTOTUNE_NAGA_VALIDATE
names the program of tests/naga_validate). With its calls translated one by one into Dawn's, the text runs on
the matrix units of lavapipe. And it runs in plain WGSL (test_cooperative_emulated.py). Nothing here proves
that a driver compiles what naga makes of the text, that naga means by its calls what wgpu's documentation
says, or that the text is fast. f32 and matrices of 16×16 run emulated only, as lavapipe has neither.
"""

import json
import os
import shutil
import subprocess

import pytest
from kernel_checks import assert_finished
from msgspec import structs
from naga_dialect import EXTRAS, KINDS, TRANSPOSES, complaint_of, in_dawn_s_dialect, plan_of, problem_of
from wgsl_text import without_comments, workgroup_memory, workgroup_size

from autotune import limits, space
from autotune.errors import AutotuneError, InvalidConfig
from autotune.export import export
from autotune.kernels import KERNELS
from autotune.kernels.gemm import GEMM, GemmProblem
from autotune.levels import Answer
from autotune.model import SubgroupMatrix
from autotune.plans import render

VALIDATOR = "AUTOTUNE_NAGA_VALIDATE"
each_kind = pytest.mark.parametrize("kind", KINDS)


# -- the same calls on matrix units --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "size", "changes"),
    [
        ("f16 8x8", (130, 17, 70), {}),
        ("f16 8x8", (66, 71, 37), {"transpose_a": True, "beta": 0.5}),
        ("f16 8x8", (33, 71, 37), {"transpose_b": True, "batch": 2, "bias": True, "activation": "gelu"}),
        ("f16 sums 8x8", (65, 63, 33), {}),
    ],
    ids=str,
)
def test_the_calls_in_dawn_s_dialect_are_right_on_matrix_units(matrix_runtime, kind, size, changes):
    problem = problem_of(kind, *size, **changes)
    plan = plan_of(kind, problem)
    assert complaint_of(matrix_runtime, problem, plan, in_dawn_s_dialect(plan.passes[0].wgsl)) is None


# -- what naga says ------------------------------------------------------------------------------------


def texts():
    """A text of every kind, by name."""
    found = {}
    for kind in KINDS:
        for changes in (*TRANSPOSES, *EXTRAS):
            for specialize in (False, True):
                problem = problem_of(kind, 67, 70, 39, **changes)
                name = f"{GEMM.label(problem)}-{KINDS[kind][0]}{'-baked' if specialize else ''}"
                found[name] = plan_of(kind, problem, specialize=specialize).passes[0].wgsl
    return found


def verdicts(folder, wgsl):
    """What naga says about each text by its name: `ok`, or what is wrong."""
    program = os.environ.get(VALIDATOR)
    if not program:
        pytest.skip(
            f"needs naga: {VALIDATOR} names the program of tests/naga_validate "
            "(NAGA=1 .ci/matrix-units builds it)"
        )
    for name, text in wgsl.items():
        (folder / f"{name}.wgsl").write_text(text, encoding="utf-8")
    paths = [str(folder / f"{name}.wgsl") for name in wgsl]
    done = subprocess.run([program, *paths], capture_output=True, text=True, check=False, timeout=120)
    lines = done.stdout.splitlines()
    assert len(lines) == len(wgsl), done.stderr
    return {name: line.partition(": ")[2] for name, line in zip(wgsl, lines, strict=True)}


def test_naga_takes_every_kind_of_text(tmp_path):
    wgsl = texts()
    assert len(wgsl) == 2 * len(KINDS) * len((*TRANSPOSES, *EXTRAS))
    assert verdicts(tmp_path, wgsl) == dict.fromkeys(wgsl, "ok")
    if shutil.which("spirv-val"):
        modules = sorted(tmp_path.glob("*.spv"))
        assert len(modules) == len(wgsl)
        for module in modules:
            subprocess.run(["spirv-val", "--target-env", "spv1.6", module], check=True, timeout=60)


def test_naga_finds_wrong_texts_out(tmp_path):
    text = plan_of("f16 16x16", problem_of("f16 16x16", 64, 64, 64)).passes[0].wgsl
    wrong = {
        "roles exchanged": text.replace("<Stored, A>", "<Stored, B>"),
        "not enabled": text.replace("enable wgpu_cooperative_matrix;", ""),
        "sums of another type": text.replace("sums: array<Sum,", "sums: array<Stored,"),
        "in some invocations only": text.replace("let a_0 =", "if (invocation > 7u) { return; }\nlet a_0 ="),
    }
    assert text not in wrong.values()
    assert "ok" not in verdicts(tmp_path, wrong).values()


# -- texts, plans and exports --------------------------------------------------------------------------


@each_kind
def test_a_text_is_finished_and_says_what_its_plan_says(kind):
    for changes in (*TRANSPOSES, *EXTRAS):
        for specialize in (False, True):
            problem = problem_of(kind, 67, 70, 39, **changes)
            plan = plan_of(kind, problem, specialize=specialize)
            (step,) = plan.passes
            assert_finished(step.wgsl)
            assert step.workgroup_size == workgroup_size(step.wgsl)
            assert step.workgroup_bytes == workgroup_memory(step.wgsl) <= 16_384
            assert limits.needs(plan) == GEMM.resources(problem, GEMM.cooperative(problem, KINDS[kind][0]))
            assert plan.multiples == {}
            assert bool(plan.uniform) is not specialize
            assert "enable subgroups" not in without_comments(step.wgsl)  # naga refuses the line


@pytest.mark.parametrize("specialize", [False, True])
def test_an_export_says_that_it_is_an_experiment_and_has_a_twin_that_runs_everywhere(tmp_path, specialize):
    problem = problem_of("f16 16x16", 100, 100, 100)
    answer = Answer(config=GEMM.cooperative(problem, "16x16"), level="default")
    paths = export(GEMM, problem, answer, tmp_path, specialize=specialize)
    manifest = json.loads(paths[-1].read_text())
    twin = json.loads((tmp_path / manifest["twin"]).read_text())
    assert manifest["experimental"] == {
        "dialect": "naga-cooperative-matrix",
        "tested": "validated, never run",
    }
    assert manifest["requiredFeatures"] == ["wgpu-cooperative-matrix", "subgroups", "shader-f16"]
    assert (manifest["variant"], manifest["tuned"]) == ("cooperative_matrix", None)
    (step,) = manifest["passes"]
    assert step["subgroupSize"] is None
    assert step["subgroupMatrix"] == {"element": "f16", "result": "f32", "m": 16, "n": 16, "k": 16}
    assert (twin["experimental"], twin["twin"]) == (None, None)
    assert twin["requiredFeatures"] == ["shader-f16"]
    assert twin["requiredLimits"] == manifest["requiredLimits"] == {}


def test_a_manifest_of_wgsl_is_no_experiment(tmp_path):
    problem = GemmProblem(m=8, n=8, k=8)
    answer = Answer(config=GEMM.default(problem, None), level="default")
    assert json.loads(export(GEMM, problem, answer, tmp_path)[-1].read_text())["experimental"] is None


def test_where_there_is_no_such_text_it_is_said_in_one_line():
    with pytest.raises(AutotuneError, match=r"\Acooperative matrices of f32 are 8x8; 16x16 takes f16\Z"):
        GEMM.cooperative(GemmProblem(m=8, n=8, k=8), "16x16")
    for name, family in KERNELS.items():
        if name != "gemm":
            problem = next(iter(family.samples.values()))
            with pytest.raises(AutotuneError, match=rf"\A{name} has no text on cooperative matrices\Z"):
                family.cooperative(problem, "8x8")


def test_it_is_nothing_that_a_search_or_a_look_up_knows():
    problem = problem_of("f16 16x16", 64, 64, 64)
    config = GEMM.cooperative(problem, "16x16")
    assert config.variant not in GEMM.config_types
    assert config.variant not in space.load_axes(GEMM)
    everything = structs.replace(
        limits.base_profile(),
        features=("shader-f16", "subgroups", "wgpu-cooperative-matrix"),
        subgroup_size=32,
        subgroup_matrix=(SubgroupMatrix(element="f16", result="f32", m=16, n=16, k=16),),
    )
    assert GEMM.default(problem, everything).variant != config.variant
    with pytest.raises(InvalidConfig):
        render(problem, config)
