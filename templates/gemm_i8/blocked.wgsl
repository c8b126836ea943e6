requires packed_4x8_integer_dot_product;

// int8 GEMM with register blocks: C[i][j] = (Σ A[i][k]·B[j][k]) · scale_a[i] · scale_b[j]. A workgroup
// computes a TILE_M×TILE_N tile of C, an invocation a THREAD_M×THREAD_N block of it, summed exactly in
// i32. `dot4I8Packed` multiplies the four int8 of two words in pairs and adds the products, one
// instruction where the hardware has it (DP4A), so int8 are never unpacked. For 16 steps of k an
// invocation reads THREAD_M + THREAD_N vec4s from workgroup memory, 16 int8 each, and takes
// 4·THREAD_M·THREAD_N such dot products of them.
// (Register blocks: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008. Scales
// around an integer product: Jacob et al., "Quantization and training of neural networks for efficient
// integer-arithmetic-only inference", CVPR 2018.)
//
//         K →                    N →            invocations of a tile (THREADS_N × THREADS_M)
//     ┌──────────┐          ┌───────────┐       ┌──┬──┬──┬──┐
//   M │  tile_a  │          │           │       │00│01│..│  │   32 neighbours form
//   ↓ └──────────┘   ──→  M │ tile of C │       ├──┼──┼──┼──┤   LANES_N × (32/LANES_N), so that a
//     ┌──────────┐        ↓ │           │       │..│  │  │  │   subgroup reads few different rows
//   N │  tile_b  │          └───────────┘       └──┴──┴──┴──┘   of A and of B
//   ↓ └──────────┘    every row of A with every row of B
//
//   tile_m, tile_n       tile of C a workgroup computes, in elements, e.g. 128 × 64
//   tile_k               depth of the tiles in workgroup memory, in int8, e.g. 64
//   thread_m, thread_n   register block of an invocation, in elements, e.g. 8 × 8; its rows and columns
//                        lie a stripe apart, so that neighbours read and store neighbours
//   lanes_n              of 32 neighbouring invocations, how many lie along N, e.g. 8
//   vector               words a memory access moves: 4 (K a multiple of 16) or 1
//   pad                  vec4s added to each row of the tiles, 0 or 1: rows of an odd number of vec4s
//                        start in different banks
//   buffering            single: load, wait, compute; prefetch: the next tile waits in registers;
//                        double: and has a second place in workgroup memory (one barrier less)
//   unroll_k             int8 along K written out, e.g. 32: the loop over them costs nothing

//# set threads_n = tile_n // thread_n
//# set threads_m = tile_m // thread_m
//# set invocations = threads_m * threads_n
//# set quads_k = tile_k // 16
//# set buffers = 2 if buffering == "double" else 1
{% from "lib/tile_walk.wgsl" import tile_walk %}

{% include "lib/sizes.wgsl" %}

{% include "gemm_i8/operands.wgsl" %}

{% include "gemm_i8/quads.wgsl" %}

{% include "lib/grid.wgsl" %}

const TILE_M = {{ tile_m }}u;
const TILE_N = {{ tile_n }}u;
const QUADS_K = {{ quads_k }}u;  // vec4s of words along K: {{ tile_k }} / 16
const TILE_WORDS = QUADS_K * 4u;
const THREADS_N = {{ threads_n }}u;  // invocations along N: {{ tile_n }} / {{ thread_n }}
const INVOCATIONS = {{ invocations }}u;  // {{ threads_m }} × {{ threads_n }}
const LANES_N = {{ lanes_n }}u;
const LANES_M = 32u / LANES_N;
const BUFFERS = {{ buffers }}u;

// Nested arrays: a constant index is never clamped, and the clamp of a thread's own row is the same
// expression for every k, so that the compiler keeps one.
const PITCH = QUADS_K{{ ' + 1u' if pad else '' }};  // vec4s a row
var<workgroup> tile_a: array<array<array<vec4<u32>, PITCH>, TILE_M>, BUFFERS>;  // [row][k / 16]
var<workgroup> tile_b: array<array<array<vec4<u32>, PITCH>, TILE_N>, BUFFERS>;  // [col][k / 16]

//# set units = {"a": tile_m * quads_k, "b": tile_n * quads_k}
//# set steps_a = [units.a // invocations, 1] | max
//# set steps_b = [units.b // invocations, 1] | max
//# set steps = {"a": steps_a, "b": steps_b}
{% macro guarded(name) %}
//# if units[name] < invocations
        if (invocation < {{ units[name] }}u) {
//# endif
{{ caller() }}
//# if units[name] < invocations
        }
//# endif
{% endmacro %}
{% macro fetch_with(k0, suffix) %}
//# for name in ["a", "b"]
//# call guarded(name)
//# for s in range(steps[name])
            next_{{ name }}_{{ s }} = load_{{ name }}{{ suffix }}({{ name }}_start_{{ s }}, {{ k0 }} + own_quad * 4u);
//# endfor
//# endcall
//# endfor
{% endmacro %}
{% macro fetch(k0) %}
        // Memory -> registers. Only the last tile along K can reach past the end.
        if ({{ k0 }} + TILE_WORDS <= words) {
{{ fetch_with(k0, "") }}
        } else {
{{ fetch_with(k0, "_tail") }}
        }
{% endmacro %}
{% macro commit(buffer) %}
        // Registers -> workgroup memory.
//# for name in ["a", "b"]
//# call guarded(name)
//# for s in range(steps[name])
            tile_{{ name }}[{{ buffer }}][own_row + {{ s * invocations // quads_k }}u][own_quad] = next_{{ name }}_{{ s }};
//# endfor
//# endcall
//# endfor
{% endmacro %}
{% macro quad_step(buffer, quad) %}
        {
            // 16 int8 along K: every row of A's tile with every row of B's.
//# for j in range(thread_n)
            let b_{{ j }} = tile_b[{{ buffer }}][pos_n + {{ j * threads_n }}u][{{ quad }}];
//# endfor
//# for r in range(thread_m)
            let a_{{ r }} = tile_a[{{ buffer }}][pos_m + {{ r * threads_m }}u][{{ quad }}];
//# for word in ["x", "y", "z", "w"]
//# for j in range(0, thread_n, 4)
            c_{{ r }}_{{ j // 4 }} += vec4<i32>({% for i in range(4) %}dot4I8Packed(a_{{ r }}.{{ word }}, b_{{ j + i }}.{{ word }}){{ ", " if not loop.last }}{% endfor %});
//# endfor
//# endfor
//# endfor
        }
{% endmacro %}
{% macro compute(buffer) %}
//# if unroll_k == tile_k
//# for quad in range(quads_k)
{{ quad_step(buffer, "%du" % quad) }}
//# endfor
//# else
        for (var quad = 0u; quad < QUADS_K; quad += {{ unroll_k // 16 }}u) {
//# for u in range(unroll_k // 16)
{{ quad_step(buffer, "quad + %du" % u) }}
//# endfor
        }
//# endif
{% endmacro %}

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    // Which tile of C. The whole workgroup leaves together where the grid is larger than the tiles.
    let tiles_m = (sizes.m + TILE_M - 1u) / TILE_M;
    let tiles_n = (sizes.n + TILE_N - 1u) / TILE_N;
    let tile = linear_workgroup(workgroup, grid);
    if (tile >= tiles_m * tiles_n) { return; }
    let tile_row = tile / tiles_n * TILE_M;
    let tile_col = tile % tiles_n * TILE_N;

    // Which register block of the tile.
    let block = invocation / 32u;
    let lane = invocation % 32u;
    let pos_n = block % (THREADS_N / LANES_N) * LANES_N + lane % LANES_N;
    let pos_m = block / (THREADS_N / LANES_N) * LANES_M + lane / LANES_N;

    // Words along K: from here on, k counts words.
    let words = sizes.k / 4u;

    // Which vec4s this invocation carries. Rows past the edge read the last one; they are never stored.
    let own_quad = invocation % QUADS_K;
    let own_row = invocation / QUADS_K;
//# for name, size, tile_start in [("a", "sizes.m", "tile_row"), ("b", "sizes.n", "tile_col")]
//# for s in range(steps[name])
    let {{ name }}_start_{{ s }} = min({{ tile_start }} + own_row + {{ s * invocations // quads_k }}u, {{ size }} - 1u) * words;
    var next_{{ name }}_{{ s }} = vec4<u32>();
//# endfor
//# endfor

    // The register block: rows of vec4s along N.
//# for r in range(thread_m)
//# for j in range(thread_n // 4)
    var c_{{ r }}_{{ j }} = vec4<i32>();
//# endfor
//# endfor

{{ tile_walk(buffering, fetch, commit, compute, "0u", "words", "TILE_WORDS") }}

    // The exact sums become f32 and take their scales.
//# for j in range(thread_n)
    let col_{{ j }} = tile_col + pos_n + {{ j * threads_n }}u;
    let scale_{{ j }} = scale_b[min(col_{{ j }}, sizes.n - 1u)];
//# endfor
//# for r in range(thread_m)
    let row_{{ r }} = tile_row + pos_m + {{ r * threads_m }}u;
    if (row_{{ r }} < sizes.m) {
        let scale = scale_a[row_{{ r }}];
        let start = row_{{ r }} * sizes.n;
//# for j in range(thread_n)
        if (col_{{ j }} < sizes.n) { c[start + col_{{ j }}] = f32(c_{{ r }}_{{ j // 4 }}.{{ "xyzw"[j % 4] }}) * scale * scale_{{ j }}; }
//# endfor
    }
//# endfor
}
