//# if f16
enable f16;

//# endif
// Attention in three passes, the third: O[i] = Σ P[i][j]·V[j], one invocation for every four columns.
//
//   workgroup   invocations, e.g. 64

{% include "lib/sizes.wgsl" %}

{% include "attention/operands.wgsl" %}

{% include "lib/grid.wgsl" %}

@group(0) @binding(9) var<storage, read_write> scores: array<f32>;  // [entry][head][query][key]

const WORKGROUP = {{ workgroup }}u;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let quads = (V_HEAD_DIM + 3u) / 4u;
    let id = linear_workgroup(workgroup, grid) * WORKGROUP + local.x;
    let line = id / quads;  // of all rows of all heads
    let row = line % sizes.seq;
    let head = line / sizes.seq % sizes.heads;
    let batch = line / sizes.seq / sizes.heads;
    if (batch >= sizes.batch) { return; }

    let column = id % quads * 4u;
    let v_begin = v_start(batch, head / sizes.group);
    let keys = keys_of(batch);
    var sum = vec4<f32>();
    for (var key = 0u; key < keys; key++) {
        sum += scores[line * sizes.kv_seq + key] * vec4<f32>(load_v(v_begin + key * sizes.v_row, column));
    }
    store_o(o_row(batch, head, row), column, sum);
}
