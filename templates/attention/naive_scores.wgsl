//# if f16
enable f16;

//# endif
// Attention in three passes, the first: all scores to memory, S[i][j] = finish(Σ Q[i][d]·K[j][d]), one
// invocation an element. It is here to be understood and to be measured against, not to be fast.
//
//   workgroup   invocations, side by side along the keys, e.g. 64

{% include "lib/sizes.wgsl" %}

{% include "attention/operands.wgsl" %}

//# set wide = false
{% include "attention/online_softmax.wgsl" %}

//# set tiles = false
{% include "attention/scores.wgsl" %}

{% include "lib/grid.wgsl" %}

@group(0) @binding(9) var<storage, read_write> scores: array<f32>;  // [entry][head][query][key]

const WORKGROUP = {{ workgroup }}u;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (sizes.kv_seq + WORKGROUP - 1u) / WORKGROUP;
    let id = linear_workgroup(workgroup, grid);
    let key = id % across * WORKGROUP + local.x;
    let row = id / across % sizes.seq;
    let head = id / across / sizes.seq % sizes.heads;
    let batch = id / across / sizes.seq / sizes.heads;
    if (batch >= sizes.batch || key >= sizes.kv_seq) { return; }

    let place = place_of(batch, head);
    let q_begin = q_row(batch, head, row);
    let k_begin = k_start(batch, head / sizes.group) + min(key, max(place.keys, 1u) - 1u) * sizes.k_row;
    let factor = q_factor();
    var product = 0.0;
    for (var d = 0u; d < HEAD_DIM; d += 4u) {
        product += dot(vec4<f32>(load_q(q_begin, d)) * factor, vec4<f32>(load_k(k_begin, d)));
    }
    scores[((batch * sizes.heads + head) * sizes.seq + row) * sizes.kv_seq + key] = finish(product, place, row, key);
}
