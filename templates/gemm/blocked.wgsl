//# if f16
enable f16;

//# endif
// GEMM with register blocks: a workgroup computes a TILE_M×TILE_N tile of C, an invocation a
// THREAD_M×THREAD_N block of it, held in registers as vec4s along N. Per step of k it reads
// THREAD_M + THREAD_N values from workgroup memory and does THREAD_M·THREAD_N multiply-adds, so the
// block, not the memory, sets the speed. (The scheme of Volkov and Demmel, "Benchmarking GPUs to tune
// dense linear algebra", SC 2008, and of Goto's GEBP one level further down.)
//
//            TILE_N                      invocations of a tile (THREADS_N × THREADS_M)
//        ┌─────────────┐                 ┌──┬──┬──┬──┐
//        │   tile_b    │ TILE_K          │00│01│..│  │   32 neighbours form LANES_N × (32/LANES_N)
//        └─────────────┘                 ├──┼──┼──┼──┤   so that a subgroup reads few different
//   ┌──┐ ┌─────────────┐                 │..│  │  │  │   rows of A and columns of B
//   │A │ │ tile of C   │ TILE_M          └──┴──┴──┴──┘
//   └──┘ └─────────────┘
//
//   tile_m, tile_n       tile of C a workgroup computes, in elements, e.g. 128 × 64
//   tile_k               depth of the tiles in workgroup memory, e.g. 16
//   thread_m, thread_n   register block of an invocation, in elements, e.g. 8 × 8
//   lanes_n              of 32 neighbouring invocations, how many lie along N, e.g. 8
//   vector               elements a memory access moves: 4 (K and N multiples of 4) or 1
//   strips               true: an invocation's vec4s lie a stripe apart (neighbours read neighbours);
//                        false: they are contiguous
//   k_major_a            true: A's tile is stored k-major, so a vec4 of it holds four rows;
//                        false: row-major, a vec4 holds four k
//   banks                what is done against bank conflicts: nothing (plain), a vec4 added to each row of
//                        A's tile (pad), or every other four rows of k shifted by half a stripe of banks
//                        where a tile is turned around (swizzle)
//   buffering            single: load, wait, compute; prefetch: the next tile waits in registers;
//                        double: and has a second place in workgroup memory (one barrier less);
//                        ahead: everything is asked for a tile, or a step, before it is needed
//   commit_k             for ahead: the step of a tile before which the next tile is committed, e.g. 2
//   unroll_k             steps of k written out, e.g. 16: the loop over them costs nothing
//   group_m              tile rows that are walked together, so that B's tiles are reused from cache
//   order                of the block's multiply-adds, in which neighbours in time share values:
//                        rows: row by row, a vec4 at a time; zigzag: every other row from its end, and kept
//                        so; for k-major tiles also scalars: as in zigzag, an element at a time; pairs: two
//                        columns at a time, down all rows and back up
//   staged               workgroup memory holds the storage type or the accumulator's
//   splits               workgroups that share K, each with partial sums of its own, e.g. 8
//   slices               copies of these invocations in a workgroup, each of which takes its own tile_k steps
//                        of a tile slices times as deep, and adds its sums to the others' in the end, e.g. 4:
//                        more to do at a time where C is small (CUTLASS calls it sliced K)
//# set threads_n = tile_n // thread_n
//# set threads_m = tile_m // thread_m
//# set invocations = threads_m * threads_n * slices
//# set quads_n = thread_n // 4
//# set buffers = 2 if buffering in ["double", "ahead"] else 1
//# set depth = "SLICE_K" if slices > 1 else "TILE_K"
//# set along_a = "outer" if transpose_a else "k"
//# set along_b = "k" if transpose_b else "outer"
//# set op_a = {"x": "a", "across": tile_m, "depth": tile_k * slices, "along": along_a, "k_major": k_major_a, "tile": "tile_row", "size": extent_a, "ld": lda, "start": "a_start", "swizzle": banks == "swizzle" and along_a == "k" and k_major_a}
//# set op_b = {"x": "b", "across": tile_n, "depth": tile_k * slices, "along": along_b, "k_major": true, "tile": "tile_col", "size": extent_b, "ld": ldb, "start": "b_start", "swizzle": banks == "swizzle" and along_b == "k"}
{% from "lib/gemm_load.wgsl" import load with context %}
{% from "lib/gemm_stage.wgsl" import places, fetch, commit, column with context %}
{% from "lib/tile_walk.wgsl" import tile_walk %}
{{ "" }}
{% include "lib/sizes.wgsl" %}

{% include "lib/gemm_operands.wgsl" %}

{{ load("a", along_a, extent_a) }}

{{ load("b", along_b, extent_b) }}

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

const TILE_M = {{ tile_m }}u;
const TILE_N = {{ tile_n }}u;
//# if slices == 1
const TILE_K = {{ tile_k }}u;
//# else
const SLICES = {{ slices }}u;
const SLICE_K = {{ tile_k }}u;
const TILE_K = SLICES * SLICE_K;
//# endif
const THREADS_N = {{ threads_n }}u;  // invocations along N: {{ tile_n }} / {{ thread_n }}
const INVOCATIONS = {{ invocations }}u;  // {{ threads_m }} × {{ threads_n }}{{ " × %d slices" % slices if slices > 1 }}
const LANES_N = {{ lanes_n }}u;
const LANES_M = 32u / LANES_N;
const BUFFERS = {{ buffers }}u;
//# if splits > 1
const SPLITS = {{ splits }}u;
//# endif
//# if group_m > 1
const GROUP_M = {{ group_m }}u;
//# endif

// Nested arrays: a constant index is never clamped, and the clamp of a thread's own column is the
// same expression for every k, so that the compiler keeps one. Flat arrays lose a seventh of the speed.
//# if k_major_a
const PITCH_A = TILE_M / 4u{{ ' + 1u' if banks == 'pad' else '' }};  // vec4s a row
var<workgroup> tile_a: array<array<array<vec4<Staged>, PITCH_A>, {{ depth }}>, BUFFERS{{ " * SLICES" if slices > 1 }}>;  // [k][row / 4]
//# else
const PITCH_A = {{ depth }} / 4u{{ ' + 1u' if banks == 'pad' else '' }};  // vec4s a row
var<workgroup> tile_a: array<array<array<vec4<Staged>, PITCH_A>, TILE_M>, BUFFERS{{ " * SLICES" if slices > 1 }}>;  // [row][k / 4]
//# endif
var<workgroup> tile_b: array<array<array<vec4<Staged>, TILE_N / 4u>, {{ depth }}>, BUFFERS{{ " * SLICES" if slices > 1 }}>;  // [k][col / 4]
//# if slices > 1

const QUADS_N = {{ quads_n }}u;
// A row of all register blocks, of all slices but the first.
var<workgroup> row_sums: array<array<vec4<Sum>, INVOCATIONS / SLICES>, (SLICES - 1u) * QUADS_N>;

// Where a slice's part of a tile lies.
fn place(buffer: u32, slice: u32) -> u32 {
    return buffer * SLICES + slice;
}
//# endif

//# set components = ["x", "y", "z", "w"]
{% macro fetch_tiles(k0) %}
//# if whole_k
        // Memory -> registers.
{{ fetch(op_a, k0, false) }}
{{ fetch(op_b, k0, false) }}
//# else
        // Memory -> registers. Only the last tile along K can reach past the end.
        if ({{ k0 }} + TILE_K <= sizes.k) {
{{ fetch(op_a, k0, false) }}
{{ fetch(op_b, k0, false) }}
        } else {
{{ fetch(op_a, k0, true) }}
{{ fetch(op_b, k0, true) }}
        }
//# endif
{% endmacro %}
{% macro commit_tiles(buffer) %}
        // Registers -> workgroup memory.
{{ commit(op_a, buffer) }}
{{ commit(op_b, buffer) }}
{% endmacro %}
{% macro quad_n(j) %}{{ "pos_n + %du" % (j * threads_n) if strips else "pos_n * %du + %du" % (quads_n, j) }}{% endmacro %}
{% macro quad_m(i) %}{{ "pos_m + %du" % (i * threads_m) if strips else "pos_m * %du + %du" % (thread_m // 4, i) }}{% endmacro %}
{% macro row(r) %}
//# if k_major_a
({{ quad_m(r // 4) }}) * 4u + {{ r % 4 }}u
//# else
{{ "pos_m + %du" % (r * threads_m) if strips else "pos_m * %du + %du" % (thread_m, r) }}
//# endif
{% endmacro %}
{% macro multiply_add(r, a, b) %}
//# for j in (range(quads_n) | reverse if back(r) else range(quads_n))
            c_{{ r }}_{{ j }} = fma(vec4<Sum>(Sum({{ a }})), vec4<Sum>({{ b }}_{{ j }}{{ back(r) }}), c_{{ r }}_{{ j }});
//# endfor
{% endmacro %}
{% macro back(r) %}{{ ".wzyx" if order == "zigzag" and r % 2 == 1 }}{% endmacro %}
{% macro multiply_add_element(r, col, a, b) %}
            c_{{ r }}_{{ col // 4 }}.{{ components[col % 4] }} = fma(Sum({{ a }}_{{ r // 4 }}.{{ components[r % 4] }}), Sum({{ b }}_{{ col // 4 }}.{{ components[col % 4] }}), c_{{ r }}_{{ col // 4 }}.{{ components[col % 4] }});
{% endmacro %}
{% macro slot(buffer) %}{{ "place(%s, slice)" % buffer if slices > 1 else buffer }}{% endmacro %}
{% macro read_step(set, a, b, buffer, k, u, count) %}
//# for i in range(thread_m // 4)
            {{ set }}{{ a }}_{{ i }} = tile_a[{{ slot(buffer) }}][{{ k }}{{ u }}u][{{ column(op_a, quad_m(i), u, count) | trim }}];
//# endfor
//# for j in range(quads_n)
            {{ set }}{{ b }}_{{ j }} = tile_b[{{ slot(buffer) }}][{{ k }}{{ u }}u][{{ column(op_b, quad_n(j), u, count) | trim }}];
//# endfor
{% endmacro %}
{% macro outer_product(a, b) %}
//# if order == "scalars"
//# for r in range(thread_m)
//# for col in (range(thread_n) | reverse if r % 2 == 1 else range(thread_n))
{{ multiply_add_element(r, col, a, b) }}
//# endfor
//# endfor
//# elif order == "pairs"
//# for left in range(0, thread_n, 2)
//# for r in (range(thread_m) | reverse if left % 4 == 2 else range(thread_m))
//# for col in ([left + 1, left] if loop.index0 % 2 == 1 else [left, left + 1])
{{ multiply_add_element(r, col, a, b) }}
//# endfor
//# endfor
//# endfor
//# else
//# for r in range(thread_m)
{{ multiply_add(r, "%s_%d.%s" % (a, r // 4, components[r % 4]), b) }}
//# endfor
//# endif
{% endmacro %}
{% macro steps(buffer, k, count) %}
//# if k_major_a
//# for u in range(count)
        {
            // One step of k: the outer product of a column of A's tile and a row of B's.
{{ read_step("let ", "a", "b", buffer, k, u, count) }}
{{ outer_product("a", "b") }}
        }
//# endfor
//# else
//# for u in range(0, count, 4)
        {
            // Four steps of k: each vec4 of A's tile holds four of them.
//# for c in range(4)
//# for j in range(quads_n)
            let b{{ c }}_{{ j }} = tile_b[{{ slot(buffer) }}][{{ k }}{{ u + c }}u][{{ column(op_b, quad_n(j), u, count) | trim }}];
//# endfor
//# endfor
//# for r in range(thread_m)
            let a_{{ r }} = tile_a[{{ slot(buffer) }}][{{ row(r) | trim }}][({{ k }}{{ u }}u) / 4u];
//# for c in range(4)
{{ multiply_add(r, "a_%d.%s" % (r, components[c]), "b%d" % c) }}
//# endfor
//# endfor
        }
//# endfor
//# endif
{% endmacro %}
{% macro store_row(r) %}
//# for j in range(quads_n)
    store_c(c_begin, tile_row + {{ row(r) | trim }}, tile_col + ({{ quad_n(j) }}) * 4u, c_{{ r }}_{{ j }}{{ back(r) }});
//# endfor
{% endmacro %}
{% macro compute(buffer) %}
//# if unroll_k == tile_k
{{ steps(buffer, "", tile_k) }}
//# else
        for (var k = 0u; k < {{ depth }}; k += {{ unroll_k }}u) {
{{ steps(buffer, "k + ", unroll_k) }}
        }
//# endif
{% endmacro %}

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
{% include "lib/gemm_tile.wgsl" %}

    // Which register block of the tile.
//# if slices > 1
    let slice = invocation / (INVOCATIONS / SLICES);
    let member = invocation % (INVOCATIONS / SLICES);
    let block = member / 32u;
//# else
    let block = invocation / 32u;
//# endif
    let lane = invocation % 32u;
    let pos_n = block % (THREADS_N / LANES_N) * LANES_N + lane % LANES_N;
    let pos_m = block / (THREADS_N / LANES_N) * LANES_M + lane / LANES_N;

{{ places(op_a) }}
{{ places(op_b) }}

    // The register block: rows of vec4s along N.
//# for r in range(thread_m)
//# for j in range(quads_n)
    var c_{{ r }}_{{ j }} = vec4<Sum>();
//# endfor
//# endfor

//# if buffering != "ahead"
{{ tile_walk(buffering, fetch_tiles, commit_tiles, compute, "k_begin", "k_end", "TILE_K") }}
//# else
{% include "gemm/ahead.wgsl" %}
//# endif

//# if slices > 1
    // The first slice adds the others' sums to its own.
//# endif
//# for r in range(thread_m)
//# if slices > 1
    if (slice > 0u) {
//# for j in range(quads_n)
        row_sums[(slice - 1u) * QUADS_N + {{ j }}u][member] = c_{{ r }}_{{ j }};
//# endfor
    }
    workgroupBarrier();
    if (slice == 0u) {
//# for s in range(slices - 1)
//# for j in range(quads_n)
        c_{{ r }}_{{ j }} += row_sums[{{ s * quads_n + j }}u][member];
//# endfor
//# endfor
{{ store_row(r) }}
    }
//# if not loop.last
    workgroupBarrier();
//# endif
//# else
{{ store_row(r) }}
//# endif
//# endfor
}
