//# if f16
enable f16;

//# endif
// GEMM with weights in 4 bits for many rows of A: a workgroup computes a TILE_M×TILE_N tile of C, an
// invocation a THREAD_M×THREAD_N block of it in registers. Tiles of A and W lie in workgroup memory, both
// k-major; W's codes become numbers on their way there, once for TILE_M rows. (Register blocks: Volkov and
// Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008.)
//
//            TILE_N
//        ┌─────────────┐    an invocation carries 4 rows of A × 4 k, and 4 columns of W × 4 k (half a
//        │   tile_w    │ TILE_K    word each), and writes both turned, so that a vec4 of a tile holds
//        └─────────────┘           four rows, or four columns, of one k
//   ┌──┐ ┌─────────────┐
//   │A │ │ tile of C   │ TILE_M    32 neighbours form 8 (along N) × 4 blocks, whose vec4s lie a stripe
//   └──┘ └─────────────┘           apart, so that neighbours read neighbours
//
//   tile_m, tile_n      tile of C a workgroup computes, in elements, e.g. 64 × 64
//   tile_k              depth of the tiles, e.g. 16; K must be a multiple of it
//   thread_m, thread_n  register block of an invocation, in elements, e.g. 8 × 8
//   buffering           single: load, wait, compute; prefetch: the next tile waits in registers;
//                       double: and has a second place in workgroup memory (one barrier less)
//   unroll_k            steps of k written out, e.g. 16
//   splits              workgroups that share K, each with partial sums of its own, e.g. 4
//# set threads_n = tile_n // thread_n
//# set threads_m = tile_m // thread_m
//# set invocations = threads_m * threads_n
//# set buffers = 2 if buffering == "double" else 1
//# set quads_m = thread_m // 4
//# set quads_n = thread_n // 4
//# set units_a = tile_m * tile_k // 16
//# set units_w = tile_n * tile_k // 16
//# set steps_a = [units_a // invocations, 1] | max
//# set steps_w = [units_w // invocations, 1] | max
//# set components = ["x", "y", "z", "w"]
{% from "lib/tile_walk.wgsl" import tile_walk %}

{% include "lib/sizes.wgsl" %}

{% include "gemm_q4/operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

const TILE_M = {{ tile_m }}u;
const TILE_N = {{ tile_n }}u;
const TILE_K = {{ tile_k }}u;
const THREADS_N = {{ threads_n }}u;  // invocations along N: {{ tile_n }} / {{ thread_n }}
const INVOCATIONS = {{ invocations }}u;  // {{ threads_m }} × {{ threads_n }}
const BUFFERS = {{ buffers }}u;
//# if splits > 1
const SPLITS = {{ splits }}u;
//# endif
const LANES_N = 8u;
const LANES_M = 4u;

// Nested arrays: a constant index is never clamped, and the clamp of a thread's own column is the
// same expression for every k, so that the compiler keeps one.
var<workgroup> tile_a: array<array<array<vec4<Sum>, TILE_M / 4u>, TILE_K>, BUFFERS>;  // [k][row / 4]
var<workgroup> tile_w: array<array<array<vec4<Sum>, TILE_N / 4u>, TILE_K>, BUFFERS>;  // [k][col / 4]

{% macro guarded(units) %}
//# if units < invocations
        if (invocation < {{ units }}u) {
{{ caller() }}
        }
//# else
{{ caller() }}
//# endif
{% endmacro %}
{% macro fetch(k0) %}
        // Memory -> registers.
{% call guarded(units_a) %}
//# for s in range(steps_a)
//# for r in range(4)
            next_a_{{ s }}_{{ r }} = a[a_start_{{ s }}_{{ r }} + ({{ k0 }} + unit_k) / 4u];
//# endfor
//# endfor
{% endcall %}
{% call guarded(units_w) %}
//# for s in range(steps_w)
//# for r in range(4)
            next_word_{{ s }}_{{ r }} = weights[weights_start_{{ s }}_{{ r }} + ({{ k0 }} + unit_k) / 8u];
            next_scale_{{ s }}_{{ r }} = scales[scales_start_{{ s }}_{{ r }} + ({{ k0 }} + unit_k) / GROUP];
//# endfor
//# endfor
{% endcall %}
{% endmacro %}
{% macro turned(c) %}vec4<Sum>(v_0.{{ c }}, v_1.{{ c }}, v_2.{{ c }}, v_3.{{ c }}){% endmacro %}
{% macro commit(buffer) %}
        // Registers -> workgroup memory, turned; codes become numbers.
{% call guarded(units_a) %}
//# for s in range(steps_a)
            {
//# for r in range(4)
                let v_{{ r }} = vec4<Sum>(next_a_{{ s }}_{{ r }});
//# endfor
//# for c in components
                tile_a[{{ buffer }}][unit_k + {{ loop.index0 }}u][unit_row + {{ s * invocations * 4 // tile_k }}u] = {{ turned(c) }};
//# endfor
            }
//# endfor
{% endcall %}
{% call guarded(units_w) %}
//# for s in range(steps_w)
            {
//# for r in range(4)
                let v_{{ r }} = Sum(next_scale_{{ s }}_{{ r }}) * four_weights(next_word_{{ s }}_{{ r }} >> shift);
//# endfor
//# for c in components
                tile_w[{{ buffer }}][unit_k + {{ loop.index0 }}u][unit_row + {{ s * invocations * 4 // tile_k }}u] = {{ turned(c) }};
//# endfor
            }
//# endfor
{% endcall %}
{% endmacro %}
{% macro steps(buffer, k, count) %}
//# for u in range(count)
        {
            // One step of k: the outer product of a column of A's tile and a row of W's.
//# for i in range(quads_m)
            let a_{{ i }} = tile_a[{{ buffer }}][{{ k }}{{ u }}u][pos_m + {{ i * threads_m }}u];
//# endfor
//# for j in range(quads_n)
            let w_{{ j }} = tile_w[{{ buffer }}][{{ k }}{{ u }}u][pos_n + {{ j * threads_n }}u];
//# endfor
//# for r in range(thread_m)
//# for j in range(quads_n)
            c_{{ r }}_{{ j }} = fma(vec4<Sum>(a_{{ r // 4 }}.{{ components[r % 4] }}), w_{{ j }}, c_{{ r }}_{{ j }});
//# endfor
//# endfor
        }
//# endfor
{% endmacro %}
{% macro compute(buffer) %}
//# if unroll_k == tile_k
{{ steps(buffer, "", tile_k) }}
//# else
        for (var k = 0u; k < TILE_K; k += {{ unroll_k }}u) {
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
    // Workgroups that share columns of W follow each other. Past the last tile, all of one leave together.
    let tiles_m = (sizes.m + TILE_M - 1u) / TILE_M;
    let tiles_n = (sizes.n + TILE_N - 1u) / TILE_N;
    let id = linear_workgroup(workgroup, grid);
    if (id >= tiles_m * tiles_n{{ " * SPLITS" if splits > 1 else "" }}) { return; }
    let tile = id{{ " % (tiles_m * tiles_n)" if splits > 1 else "" }};
    let tile_row = tile % tiles_m * TILE_M;
    let tile_col = tile / tiles_m * TILE_N;

//# if splits > 1
    // Which share of K, in whole tiles. A share may be empty; its sums are zero then.
    let split = id / (tiles_m * tiles_n);
    let share = (sizes.k / TILE_K + SPLITS - 1u) / SPLITS * TILE_K;
    let k_begin = min(split * share, sizes.k);
    let k_end = min(k_begin + share, sizes.k);
    let c_begin = c_start(split, 0u);
//# else
    let k_begin = 0u;
    let k_end = sizes.k;
    let c_begin = 0u;
//# endif

    // Which register block of the tile.
    let block = invocation / 32u;
    let lane = invocation % 32u;
    let pos_n = block % (THREADS_N / LANES_N) * LANES_N + lane % LANES_N;
    let pos_m = block / (THREADS_N / LANES_N) * LANES_M + lane / LANES_N;

    // What this invocation carries. Rows and columns past the edge read the last one; they are never stored.
    let unit_k = invocation % (TILE_K / 4u) * 4u;
    let unit_row = invocation / (TILE_K / 4u);  // of vec4s of the tiles
    let shift = unit_k % 8u * 4u;  // bits below its codes in their word
//# for s in range(steps_a)
//# for r in range(4)
    let a_start_{{ s }}_{{ r }} = min(tile_row + unit_row * 4u + {{ s * invocations * 16 // tile_k + r }}u, sizes.m - 1u) * (sizes.k / 4u);
    var next_a_{{ s }}_{{ r }} = vec4<Stored>();
//# endfor
//# endfor
//# for s in range(steps_w)
//# for r in range(4)
    let column_{{ s }}_{{ r }} = min(tile_col + unit_row * 4u + {{ s * invocations * 16 // tile_k + r }}u, sizes.n - 1u);
    let weights_start_{{ s }}_{{ r }} = column_{{ s }}_{{ r }} * (sizes.k / 8u);
    let scales_start_{{ s }}_{{ r }} = column_{{ s }}_{{ r }} * (sizes.k / GROUP);
    var next_word_{{ s }}_{{ r }} = 0u;
    var next_scale_{{ s }}_{{ r }} = Stored();
//# endfor
//# endfor

    // The register block: rows of vec4s along N.
//# for r in range(thread_m)
//# for j in range(quads_n)
    var c_{{ r }}_{{ j }} = vec4<Sum>();
//# endfor
//# endfor

{{ tile_walk(buffering, fetch, commit, compute, "k_begin", "k_end", "TILE_K") }}

//# for r in range(thread_m)
//# for j in range(quads_n)
    store_c(c_begin, tile_row + (pos_m + {{ r // 4 * threads_m }}u) * 4u + {{ r % 4 }}u, tile_col + (pos_n + {{ j * threads_n }}u) * 4u, c_{{ r }}_{{ j }});
//# endfor
//# endfor
}
