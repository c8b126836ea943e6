{% include "lib/enable_matrices.wgsl" %}

// GEMM on matrix units. A workgroup computes a TILE_M×TILE_N tile of C, each of its subgroups a
// SUB_M×SUB_N part of it, as matrices of {{ m }}×{{ n }} that stay in registers, spread over the subgroup. A step
// multiplies a column of matrices of A's tile with a row of B's, {{ m }}×{{ k }} and {{ k }}×{{ n }} each, and adds the products to
// the sums: one instruction a pair of matrices. What is left to do is to keep them fed. Tiles pass through
// workgroup memory in words of {{ word }} bytes, and what a subgroup reads of them serves all its sums.
// (Markidis et al., "NVIDIA tensor core programmability, performance & precision", IPDPSW 2018; staging as in
// the samples of VK_KHR_cooperative_matrix and in CUTLASS.)
//
//              TILE_N                     subgroups of a tile (SUBGROUPS_N × SUBGROUPS_M),
//         ┌─────────────┐                 and the matrices of one of them
//         │  tile of B  │ TILE_K          ┌─────────┬─────────┐
//         └─────────────┘                 │ c00 c01 │         │
//    ┌──┐ ┌─────────────┐                 │ c10 c11 │    1    │
//    │A │ │  tile of C  │ TILE_M          ├─────────┼─────────┤
//    │  │ │             │                 │    2    │    3    │
//    └──┘ └─────────────┘                 └─────────┴─────────┘
//
//   matrix               what matrix units multiply at once, m×n×k, e.g. 16x16x16: one of the adapter's shapes
//   subgroup_size        lanes of a subgroup, which the device must have, e.g. 32
//   tile_m, tile_n       tile of C a workgroup computes, in elements, e.g. 128 × 128
//   tile_k               depth of the tiles, in elements, e.g. 32: tile_k / k steps between two barriers
//   subgroups_m, subgroups_n   how the subgroups of a workgroup share the tile, e.g. 2 × 2
//   a_from, b_from       workgroup: through workgroup memory, any sizes and layouts; memory: every subgroup loads
//                        its matrices itself, which takes whole tiles
//   pad                  1: a word is added to each row of the tiles, and short lines lie abreast in one, so that rows
//                        reach over all banks and start in different ones; 0: neither
//   buffering            single: load, wait, compute; prefetch: the next tile waits in registers; early: it is asked
//                        for before all have stored this one; double: it has a second place in workgroup memory
//                        (one barrier less)
//   group_m              tile rows that are walked together, so that B's tiles are reused from cache
//   splits               workgroups that share K, each with partial sums of its own, e.g. 4
{% from "lib/matrix_gemm.wgsl" import access_a, access_b, declare, product with context %}
{{ "" }}
{% include "lib/sizes.wgsl" %}

//# set element_a = access_a()
//# set element_b = access_b()
{% include "lib/gemm_operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

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
{% include "lib/gemm_tile.wgsl" %}

{{ product() }}
}
