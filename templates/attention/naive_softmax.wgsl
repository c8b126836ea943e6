//# if f16
enable f16;

//# endif
// Attention in three passes, the second: softmax over each row of scores, in place; one invocation a row. A row
// that sees no key becomes zeros.
//
//   workgroup   invocations, e.g. 64

{% include "lib/sizes.wgsl" %}

{% include "attention/operands.wgsl" %}

//# set wide = false
{% include "attention/online_softmax.wgsl" %}

{% include "lib/grid.wgsl" %}

@group(0) @binding(9) var<storage, read_write> scores: array<f32>;  // [entry][head][query][key]

const WORKGROUP = {{ workgroup }}u;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let id = linear_workgroup(workgroup, grid) * WORKGROUP + local.x;
    if (id >= sizes.batch * sizes.heads * sizes.seq) { return; }
    let begin = id * sizes.kv_seq;
    let end = begin + sizes.kv_seq;

    var m = NO_KEYS;
    for (var i = begin; i < end; i++) { m = max(m, scores[i]); }
//# if sinks
    let sink = sink_of(id / sizes.seq % sizes.heads);
    m = max(m, sink);
    var l = exp2(sink - m);
//# else
    var l = 0.0;
//# endif
    for (var i = begin; i < end; i++) { l += exp2(scores[i] - m); }
    let inverse = share(m, l);
    for (var i = begin; i < end; i++) { scores[i] = exp2(scores[i] - m) * inverse; }
//# if lse
    lse[id] = log_sum(m, l);
//# endif
}
