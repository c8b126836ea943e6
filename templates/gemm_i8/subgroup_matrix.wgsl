{% include "lib/enable_matrices.wgsl" %}

// int8 GEMM on matrix units: C[i][j] = (Σ A[i][k]·B[j][k]) · scale_a[i] · scale_b[j]. A workgroup computes a
// TILE_M×TILE_N tile of C, each of its subgroups a part of it, as matrices of {{ m }}×{{ n }} sums in i32, which are exact. int8
// are never unpacked: they pass through workgroup memory in words of {{ word }} bytes, as they lie in memory.
// (The scheme, its picture and its parameters are those of templates/gemm/subgroup_matrix.wgsl. Scales around an
// integer product: Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only
// inference", CVPR 2018.)
//
//         K →                    N →
//     ┌──────────┐          ┌───────────┐
//   M │    A     │          │           │    every row of A with every row of B: B's rows are the
//   ↓ └──────────┘   ──→  M │ tile of C │    columns of the matrices on the right
//     ┌──────────┐        ↓ │           │
//   N │    B     │          └───────────┘
//   ↓ └──────────┘
//
//   matrix               what matrix units multiply at once, m×n×k, e.g. 16x16x32: one of the adapter's shapes
//   subgroup_size        lanes of a subgroup, which the device must have, e.g. 32
//   tile_m, tile_n       tile of C a workgroup computes, in elements, e.g. 128 × 128
//   tile_k               depth of the tiles, in int8, e.g. 64
//   subgroups_m, subgroups_n   how the subgroups of a workgroup share the tile, e.g. 2 × 2
//   a_from, b_from       workgroup: through workgroup memory; memory: every subgroup loads its matrices itself,
//                        which takes whole tiles
//   pad                  words added to each row of the tiles, 0 or 1
//   buffering            how loads, stores and sums overlap: single, prefetch, early, double
//   group_m              tile rows that are walked together, so that B's tiles are reused from cache
{% from "lib/matrix_gemm.wgsl" import access_a, access_b, declare, product with context %}
{{ "" }}
{% include "lib/sizes.wgsl" %}

//# set type_a = access_a()
//# set type_b = access_b()
{% include "gemm_i8/operands.wgsl" %}

alias Sum = i32;

//# if store_vector == 4
// C[row][col..col+3] where it exists: the exact sums become f32 and take their scales.
fn store_c(start: u32, row: u32, col: u32, sum: vec4<Sum>) {
    if (row >= sizes.m || col >= sizes.n) { return; }
    let scaled = vec4<f32>(sum) * scale_a[row];
    let at = start + row * sizes.n + col;
    c[at / 4u] = scaled * vec4<f32>(scale_b[col], scale_b[col + 1u], scale_b[col + 2u], scale_b[col + 3u]);
}
//# else
// C[row][col]: the exact sum becomes f32 and takes its scales.
fn put(start: u32, row: u32, col: u32, sum: Sum) {
    c[start + row * sizes.n + col] = f32(sum) * scale_a[row] * scale_b[col];
}
//# endif

{% include "lib/grid.wgsl" %}

{{ declare() }}

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
    @builtin(subgroup_id) subgroup_id: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    // Which tile of C. The whole workgroup leaves together where the grid is larger than the tiles.
    let tiles_m = (sizes.m + TILE_M - 1u) / TILE_M;
    let tiles_n = (sizes.n + TILE_N - 1u) / TILE_N;
    let tile = linear_workgroup(workgroup, grid);
    if (tile >= tiles_m * tiles_n) { return; }
    let a_start = 0u;
    let b_start = 0u;
    let c_begin = 0u;
    let k_begin = 0u;
    let k_end = sizes.k;
{% include "lib/tile_order.wgsl" %}

{{ product() }}
}
