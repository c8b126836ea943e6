//# if f16
enable f16;

//# endif
// Second pass of flash_decode.wgsl and flash_decode_subgroup.wgsl: for each row of O, the results of all splits of the keys put together,
//
//     m = max m_s,   l = Σ l_s·exp2(m_s − m),   O = Σ O_s·exp2(m_s − m) / l
//
// in a fixed order, so that the same input gives the same bits every time. A workgroup takes one row.
//
//   merge_threads   invocations that share the splits, for every four columns, e.g. 8
//# set quads_v = (v_head_dim + 3) // 4
{% from "attention/together.wgsl" import together %}

{{ "" }}
{% include "lib/sizes.wgsl" %}

{% include "attention/operands.wgsl" %}

//# set wide = false
{% include "attention/online_softmax.wgsl" %}

{% include "lib/grid.wgsl" %}

{% include "attention/split_results.wgsl" %}

const SPLIT = {{ split }}u;  // keys of a split
const QUADS_V = {{ quads_v }}u;
const THREADS = {{ merge_threads }}u;

var<workgroup> part_sums: array<array<vec4<f32>, QUADS_V>, THREADS>;
var<workgroup> part_peaks: array<vec2<f32>, THREADS>;

@compute @workgroup_size(QUADS_V, THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let rows = sizes.batch * sizes.heads * sizes.seq;
    let id = linear_workgroup(workgroup, grid);
    if (id >= rows) { return; }
    let splits = (sizes.kv_seq + SPLIT - 1u) / SPLIT;

    // Every THREADS-th split.
    var m = NO_KEYS;
    var l = 0.0;
    var total = vec4<f32>();
    for (var split = local.y; split < splits; split += THREADS) {
        let peak = peaks[split * rows + id];
        let most = max(m, peak.x);
        let shrink = exp2(m - most);
        let weight = exp2(peak.x - most);
        m = most;
        l = l * shrink + peak.y * weight;
        total = total * shrink + sums[(split * rows + id) * QUADS_V + local.x] * weight;
    }
    part_sums[local.y][local.x] = total;
    if (local.x == 0u) { part_peaks[local.y] = vec2<f32>(m, l); }
    workgroupBarrier();

    if (local.y == 0u) {
{{ together(merge_threads, "part_peaks[%du]", "part_sums[%du][local.x]") }}
        let row = id % sizes.seq;
        let head = id / sizes.seq % sizes.heads;
        let batch = id / (sizes.seq * sizes.heads);
//# if sinks
        let sink = sink_of(head);
        let most = max(row_m, sink);
        row_l = row_l * exp2(row_m - most) + exp2(sink - most);
        row_sum *= exp2(row_m - most);
        row_m = most;
//# endif
        store_o(o_row(batch, head, row), local.x * 4u, row_sum * share(row_m, row_l));
//# if lse
        if (local.x == 0u) { lse[id] = log_sum(row_m, row_l); }
//# endif
    }
}
