//# if f16
enable f16;

//# endif
// GEMM with weights in 4 bits, one invocation for each element of C: C[i][j] = Σ A[i][k]·W[k][j], a word
// of eight codes at a time. It is here to be understood and to be measured against, not to be fast.
//
//   workgroup_x  invocations along N, e.g. 16
//   workgroup_y  invocations along M, e.g. 16

{% include "lib/sizes.wgsl" %}

{% include "gemm_q4/operands.wgsl" %}

{% include "lib/grid.wgsl" %}

const WORKGROUP_X = {{ workgroup_x }}u;
const WORKGROUP_Y = {{ workgroup_y }}u;

@compute @workgroup_size({{ workgroup_x }}, {{ workgroup_y }})
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let tiles_n = (sizes.n + WORKGROUP_X - 1u) / WORKGROUP_X;
    let tile = linear_workgroup(workgroup, grid);
    let row = tile / tiles_n * WORKGROUP_Y + local.y;
    let col = tile % tiles_n * WORKGROUP_X + local.x;
    if (row >= sizes.m || col >= sizes.n) { return; }

    var sum = Sum();
    for (var k = 0u; k < sizes.k; k += 8u) {
        let word = weights[(col * sizes.k + k) / 8u];
        let quad = (row * sizes.k + k) / 4u;
        let low = dot(vec4<Sum>(a[quad]), four_weights(word));
        let high = dot(vec4<Sum>(a[quad + 1u]), four_weights(word >> 16u));
        sum += (low + high) * Sum(scales[col * (sizes.k / GROUP) + k / GROUP]);
    }
    c[row * sizes.n + col] = Stored(sum);
}
