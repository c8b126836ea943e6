//# if f16
enable f16;

//# endif
//# if reduce == "subgroup"
enable subgroups;

//# endif
// Second pass of a GEMM whose K was split: adds the partial sums in a fixed order, so that the same input
// gives the same bits every time, and applies the epilogue.
//
//   lanes           invocations side by side, {{ "four elements" if store_vector == 4 else "one element" }} of C each, e.g. 16
//   threads_splits  invocations that share the splits, e.g. 16
{% from "lib/lane_sum.wgsl" import lane_sum %}

{{ "" }}
{% include "lib/sizes.wgsl" %}

alias Stored = {{ dtype }};
alias Sum = {{ accumulate }};
//# set element = "vec4<Sum>" if store_vector == 4 else "Sum"
@group(0) @binding(4) var<storage, read_write> sums: array<{{ element }}>;

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

const LANES = {{ lanes }}u;
const THREADS_SPLITS = {{ threads_splits }}u;
const SPLITS = {{ splits }}u;
const WIDTH = {{ store_vector }}u;  // elements of C an invocation adds up

var<workgroup> partial: array<array<{{ element }}, LANES>, THREADS_SPLITS>;

@compute @workgroup_size({{ lanes }}, {{ threads_splits }})
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
//# if reduce == "subgroup"
    @builtin(subgroup_size) subgroup_size: u32,
//# endif
) {
    let elements = {{ "sizes.batch * " if batched else "" }}sizes.m * sizes.n / WIDTH;
    let i = linear_workgroup(workgroup, grid) * LANES + local.x;
    var sum = {{ element }}();
    if (i < elements) {
        // Written out: a loop would wait for one load before it asks for the next.
//# for first in range(0, splits, threads_splits)
//# set add = "sum += sums[(local.y + %du) * elements + i];" % first
        {{ add if first + threads_splits <= splits else "if (local.y + %du < SPLITS) { %s }" % (first, add) }}
//# endfor
    }
{{ lane_sum(element, threads_splits, lanes, reduce) }}
    if (local.y == 0u && i < elements) {
//# if ldc == "sizes.n" and not bias
        // Rows of C follow each other without gaps, and nothing asks where one starts: no division.
        put(c_start(0u, 0u), 0u, i * WIDTH, sum);
//# else
        let row = i * WIDTH / sizes.n;
        let col = i * WIDTH % sizes.n;
        put(c_start(0u, {{ "row / sizes.m" if batched else "0u" }}), {{ "row % sizes.m" if batched else "row" }}, col, sum);
//# endif
    }
}
