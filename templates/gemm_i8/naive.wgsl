requires packed_4x8_integer_dot_product;

// int8 GEMM, one invocation for each element of C: the definition
// C[i][j] = (Σ A[i][k]·B[j][k]) · scale_a[i] · scale_b[j], read straight from memory, four int8 a
// word. It is here to be understood and to be measured against, not to be fast.
//
//   workgroup_x  invocations along N, e.g. 16
//   workgroup_y  invocations along M, e.g. 16

{% include "lib/sizes.wgsl" %}

{% include "gemm_i8/operands.wgsl" %}

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

    let words = sizes.k / 4u;
    var sum = 0i;
    for (var k = 0u; k < words; k += 1u) {
        sum += dot4I8Packed(a[row * words + k], b[col * words + k]);
    }
    c[row * sizes.n + col] = f32(sum) * scale_a[row] * scale_b[col];
}
