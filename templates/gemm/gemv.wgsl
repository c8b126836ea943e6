//# if f16
enable f16;

//# endif
// GEMM for few rows of A: a matrix-vector product, or a handful of them. Every value of B is used only
// ROWS times, so memory sets the speed: all invocations stream B in vec4s along N, and K is shared out
// among them until there are enough loads under way.
//
//               N →
//         ┌──┬──┬──┬──┐   an invocation sums 4 columns over every THREADS_K-th group of 4 k;
//     K   │  │  │  │  │   LANES_N of them lie side by side along N, THREADS_K along K
//     ↓   └──┴──┴──┴──┘
//           Σ over K in workgroup memory, then over the SPLITS of K in a second pass
//
//   rows       rows of A and C a workgroup takes, e.g. 1
//   lanes_n    invocations along N, four columns each, e.g. 16
//   threads_k  invocations along K, e.g. 16
//   vector     elements a memory access moves: 4 (K and N multiples of 4) or 1
//   unroll_k   groups of 4 k an invocation loads before it sums, e.g. 2
//   splits     workgroups that share K, each with its own partial sums, e.g. 4
{% from "lib/tree_sum.wgsl" import tree_sum %}
{% from "lib/gemm_load.wgsl" import load with context %}

{{ "" }}
{% include "lib/sizes.wgsl" %}

{% include "lib/gemm_operands.wgsl" %}

{{ load("a", "k", "sizes.m", lda) }}

{{ load("b", "outer", "sizes.n", ldb) }}

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

const ROWS = {{ rows }}u;
const LANES_N = {{ lanes_n }}u;
const THREADS_K = {{ threads_k }}u;
const SPLITS = {{ splits }}u;
const STEP_K = {{ 4 * unroll_k }}u;  // k that an invocation takes at a time

// Partial sums of one row, one vec4 an invocation.
var<workgroup> partial: array<array<vec4<Sum>, LANES_N>, THREADS_K>;

@compute @workgroup_size({{ lanes_n }}, {{ threads_k }})
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    // Which columns, rows and share of K. The whole workgroup leaves together past the last tile.
    let tiles_n = (sizes.n + LANES_N * 4u - 1u) / (LANES_N * 4u);
    let tiles_m = (sizes.m + ROWS - 1u) / ROWS;
    let id = linear_workgroup(workgroup, grid);
    if (id >= tiles_n * tiles_m * SPLITS{{ " * sizes.batch" if batched else "" }}) { return; }
    let col = (id % tiles_n * LANES_N + local.x) * 4u;
    let first_row = id / tiles_n % tiles_m * ROWS;
    let split = id / (tiles_n * tiles_m) % SPLITS;
//# if batched
    let entry = id / (tiles_n * tiles_m * SPLITS);  // of the batch
//# endif
    let a_start = {{ a_start }};
    let b_start = {{ b_start }};
//# for r in range(rows)
    let line_{{ r }} = a_start + min(first_row + {{ r }}u, sizes.m - 1u) * {{ lda }};
    var sum_{{ r }} = vec4<Sum>();
//# endfor

    // Rounds of K in which every invocation of every split takes its step.
    let stride = STEP_K * THREADS_K * SPLITS;
    let own = (split * THREADS_K + local.y) * STEP_K;
    for (var k0 = 0u; k0 < sizes.k; k0 += stride) {
        let k = k0 + own;
        if (k + STEP_K <= sizes.k) {
//# for u in range(unroll_k)
//# for s in range(4)
            let b_{{ u }}_{{ s }} = vec4<Sum>(load_b(b_start, k + {{ 4 * u + s }}u, col));
//# endfor
//# endfor
//# for r in range(rows)
//# for u in range(unroll_k)
            let a_{{ r }}_{{ u }} = vec4<Sum>(load_a(line_{{ r }}, k + {{ 4 * u }}u));
//# for c in ["x", "y", "z", "w"]
            sum_{{ r }} = fma(vec4<Sum>(a_{{ r }}_{{ u }}.{{ c }}), b_{{ u }}_{{ loop.index0 }}, sum_{{ r }});
//# endfor
//# endfor
//# endfor
        } else {
            for (var q = k; q < min(k + STEP_K, sizes.k); q += 4u) {
//# for s in range(4)
                let b_{{ s }} = vec4<Sum>(load_b_tail(b_start, q + {{ s }}u, col));
//# endfor
//# for r in range(rows)
                let a_{{ r }} = vec4<Sum>(load_a_tail(line_{{ r }}, q));
//# for c in ["x", "y", "z", "w"]
                sum_{{ r }} = fma(vec4<Sum>(a_{{ r }}.{{ c }}), b_{{ loop.index0 }}, sum_{{ r }});
//# endfor
//# endfor
            }
        }
    }

    // Row by row, the sums of the invocations along K come together.
    let c_begin = c_start(split, {{ "entry" if batched else "0u" }});
//# for r in range(rows)
    partial[local.y][local.x] = sum_{{ r }};
    workgroupBarrier();
{{ tree_sum("partial", threads_k) }}
    if (local.y == 0u) { store_c(c_begin, first_row + {{ r }}u, col, partial[0][local.x]); }
//# if not loop.last
    workgroupBarrier();
//# endif
//# endfor
}
