//# if f16
enable f16;

//# endif
// GEMM, one invocation for each element of C: the definition C[i][j] = Σ A[i][k]·B[k][j], read
// straight from memory. It is here to be understood and to be measured against, not to be fast.
//
//   workgroup_x  invocations along N, e.g. 16
//   workgroup_y  invocations along M, e.g. 16

{% include "lib/sizes.wgsl" %}

{% include "lib/gemm_operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

const WORKGROUP_X = {{ workgroup_x }}u;
const WORKGROUP_Y = {{ workgroup_y }}u;

@compute @workgroup_size({{ workgroup_x }}, {{ workgroup_y }})
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let tiles_m = (sizes.m + WORKGROUP_Y - 1u) / WORKGROUP_Y;
    let tiles_n = (sizes.n + WORKGROUP_X - 1u) / WORKGROUP_X;
    let id = linear_workgroup(workgroup, grid);
    let tile = id % (tiles_m * tiles_n);
    let entry = id / (tiles_m * tiles_n);  // of the batch
    let row = tile / tiles_n * WORKGROUP_Y + local.y;
    let col = tile % tiles_n * WORKGROUP_X + local.x;
    if (entry >= {{ "sizes.batch" if batched else "1u" }} || row >= sizes.m || col >= sizes.n) { return; }

    let a_start = {{ a_start }};
    let b_start = {{ b_start }};
    var sum = Sum();
    for (var k = 0u; k < sizes.k; k += 1u) {
        sum += Sum(a[a_start + {{ "k * %s + row" % lda if transpose_a else "row * %s + k" % lda }}]) * Sum(b[b_start + {{ "col * %s + k" % ldb if transpose_b else "k * %s + col" % ldb }}]);
    }
    put(c_start(0u, entry), row, col, sum);
}
