{% include "lib/enable_matrices.wgsl" %}

// GEMM with weights in 4 bits on matrix units, for many rows of A: a workgroup computes a TILE_M×TILE_N tile of C,
// each of its subgroups a part of it, as matrices of {{ m }}×{{ n }} sums in f32. Eight codes, one word of W in memory, become eight
// f16 on their way to workgroup memory, {{ word }} bytes there, so W is read in 4 bits and made numbers once for TILE_M rows.
// (The scheme, its picture and its parameters are those of templates/gemm/subgroup_matrix.wgsl.)
//
//         K →                        N →
//     ┌──────────┐              ┌───────────┐
//   M │    A     │ f16          │           │    W lies column by column, so its tile has a row for each
//   ↓ └──────────┘       ──→  M │ tile of C │    column of W; matrix units load it by columns
//     ┌──────────┐            ↓ │           │
//   N │ codes, s │ → f16        └───────────┘
//   ↓ └──────────┘
//
//   matrix               what matrix units multiply at once, m×n×k, e.g. 16x16x16: one of the adapter's shapes
//   subgroup_size        lanes of a subgroup, which the device must have, e.g. 32
//   tile_m, tile_n       tile of C a workgroup computes, in elements, e.g. 128 × 128
//   tile_k               depth of the tiles, e.g. 32
//   subgroups_m, subgroups_n   how the subgroups of a workgroup share the tile, e.g. 2 × 2
//   a_from               workgroup: A through workgroup memory; memory: every subgroup loads its matrices of A
//                        itself, which takes whole tiles. b_from is always workgroup
//   pad                  1: a word is added to each row of the tiles, and short lines lie abreast in one; 0: neither
//   buffering            how loads, stores and sums overlap: single, prefetch, early, double
//   group_m              tile rows that are walked together, so that W's tiles are reused from cache
//   splits               workgroups that share K, each with partial sums of its own, e.g. 4
{% from "lib/matrix_gemm.wgsl" import access_a, declare, product with context %}
{{ "" }}
{% include "lib/sizes.wgsl" %}

//# set type_a = access_a()
{% include "gemm_q4/operands.wgsl" %}

// Eight codes, and in the low half of `y` their scale.
alias Raw_b = vec2<u32>;

fn load_b(at: u32) -> Raw_b {
    return Raw_b(weights[at], bitcast<u32>(vec2<f16>(scales[at / (GROUP / 8u)], 0h)));
}

// Past the end of K: a scale of zero.
fn load_b_some(at: u32, count: u32) -> Raw_b {
    if (count == 0u) { return Raw_b(); }
    return load_b(at);
}

// Two nibbles in the mantissas of 1024 count in ones, and a subtraction leaves them less 8, exactly; the product
// with the scale rounds once. (After Kim et al., "Who says elephants can't run", SustaiNLP 2022.)
fn made_b(raw: Raw_b) -> Word {
    let scale = bitcast<vec2<f16>>(raw.y).xx;
    let two = vec4<u32>(raw.x) >> vec4<u32>(0u, 8u, 16u, 24u);
    let pairs = (two & vec4<u32>(0xfu)) | ((two & vec4<u32>(0xf0u)) << vec4<u32>(12u)) | vec4<u32>(0x64006400u);
    return Word(
//# for c in ["x", "y", "z", "w"]
        bitcast<u32>((bitcast<vec2<f16>>(pairs.{{ c }}) - vec2<f16>(1032h)) * scale),
//# endfor
    );
}

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
