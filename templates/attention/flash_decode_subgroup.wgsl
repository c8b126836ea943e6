//# if f16
enable f16;

//# endif
enable subgroups;

// Attention of few queries as in flash_decode.wgsl, whose second pass it shares, for subgroups of a known size:
// nothing leaves the registers before the end. LANES_D lanes take a key together, each the same vec4s of every key
// and of its row of V. They exchange parts of products so that each is left with the scores of one row, computes
// their exponentials once, and hands these round for P·V. Subgroups meet in workgroup memory only when all
// keys are done, and wait for each other only there. (Flash-Decoding: Dao, Haziza, Massa and Sizov, 2023; sums
// of several rows halved at each exchange as in Rabenseifner's reduce-scatter, 2004.)
//
//     lanes 0 …          keys 0 … UNROLL−1             ROWS 2, UNROLL 4, LANES_D 8: lane  0 1 2 3 4 5 6 7
//     lanes LANES_D …    keys UNROLL … 2·UNROLL−1                        has at last row  0 0 0 0 1 1 1 1
//     …                  GROUPS in all                                           of key   0 1 2 3 0 1 2 3
//
//   rows           rows of a workgroup, e.g. 4: (query, head of the group) pairs, no more than lanes_d
//   lanes_d        lanes that share a key, e.g. 32: they read neighbouring vec4s of it
//   unroll         keys of a lane at a time, e.g. 8: so many loads are under way at once
//   subgroups      subgroups of a workgroup, e.g. 8, each with keys of its own
//   steps          how often: a workgroup takes subgroups · GROUPS · unroll · steps keys in all
//   ahead          what is loaded before it is asked for: no; values: V, before the scores are known; tile: also the
//                  K and V of the next step, as soon as their registers are free
//   subgroup_size  lanes of a subgroup, which the device must have, e.g. 32
//   vector         elements a memory access moves: 4 or 1
//# set groups = subgroup_size // lanes_d
//# set quads_d = (head_dim + 3) // 4
//# set loads_d = (quads_d + lanes_d - 1) // lanes_d
//# set quads_v = (v_head_dim + 3) // 4
//# set loads_v = (quads_v + lanes_d - 1) // lanes_d
//# set lanes_row = lanes_d // rows
//# set held = [unroll // lanes_row, 1] | max
//# set spread = [lanes_row // unroll, 1] | max
//# set masks = [1, 2, 4, 8, 16, 32]
{% from "attention/together.wgsl" import together %}

{{ "" }}
{% include "lib/sizes.wgsl" %}

{% include "attention/operands.wgsl" %}

//# set wide = false
{% include "attention/online_softmax.wgsl" %}

//# set tiles = false
{% include "attention/scores.wgsl" %}

{% include "attention/keys.wgsl" %}

{% include "lib/grid.wgsl" %}

{% include "attention/split_results.wgsl" %}

const ROWS = {{ rows }}u;
const LANES_D = {{ lanes_d }}u;
const LANES_ROW = LANES_D / ROWS;  // lanes that have scores of the same row
const HELD = {{ held }}u;  // scores a lane is left with,
const SPREAD = {{ spread }}u;  // and lanes that are left with the same
const UNROLL = {{ unroll }}u;
const SUBGROUP = {{ subgroup_size }}u;
const GROUPS = SUBGROUP / LANES_D;  // keys side by side
const SUBGROUPS = {{ subgroups }}u;
const INVOCATIONS = SUBGROUPS * SUBGROUP;
const TILE_KV = SUBGROUPS * GROUPS * UNROLL;
const SPLIT = TILE_KV * {{ steps }}u;  // keys of a workgroup
const QUADS_V = {{ quads_v }}u;

var<workgroup> part_sums: array<array<array<vec4<f32>, QUADS_V>, ROWS>, SUBGROUPS>;
var<workgroup> part_peaks: array<array<vec2<f32>, ROWS>, SUBGROUPS>;

{# Memory -> registers, as stored: a lane's parts of its keys, or rows of V, of the step that begins at kv0. -#}
{% macro fetch(x, loads, kv0, to) %}
//# for u in range(unroll)
//# for i in range(loads)
        {{ to }}stored_{{ x }}_{{ u }}_{{ i }} = load_{{ x }}({{ x }}_begin + min({{ kv0 }} + first_key + {{ u }}u, last_read) * sizes.{{ x }}_row, (lane_d + {{ i }}u * LANES_D) * 4u);
//# endfor
//# endfor
{% endmacro %}
{% macro product(r, u) %}{% for i in range(loads_d) %}dot(q_{{ r }}_{{ i }}, k_{{ u }}_{{ i }}){{ " + " if not loop.last }}{% endfor %}{% endmacro %}
{#-
Partial products of all rows and keys -> whole ones, of which each lane keeps its own: at each exchange it adds what
its partner has of the half that it keeps. Which rows these are it knows before and has its queries in that order;
keys are the same for all, so the half is selected.
-#}
{% macro share_out() %}
//# set at = namespace(count=rows * unroll, mask=lanes_d // 2)
//# for _ in masks
//# if at.mask >= 1
//# if at.count > unroll
//# set at.count = at.count // 2
//# for i in range(at.count)
        product_{{ i }} += subgroupShuffleXor(product_{{ i + at.count }}, {{ at.mask }}u);
//# endfor
//# elif at.count > 1
        {
            let upper = lane_d / {{ at.mask }}u % 2u == 1u;
//# set at.count = at.count // 2
//# for i in range(at.count)
            product_{{ i }} = select(product_{{ i }}, product_{{ i + at.count }}, upper) + subgroupShuffleXor(select(product_{{ i + at.count }}, product_{{ i }}, upper), {{ at.mask }}u);
//# endfor
        }
//# else
        product_0 += subgroupShuffleXor(product_0, {{ at.mask }}u);
//# endif
//# set at.mask = at.mask // 2
//# endif
//# endfor
{% endmacro %}
{#- A value over the lanes of a row that have different scores, and over the groups of the subgroup. -#}
{% macro over_row(of) %}
//# for mask in masks
//# if spread <= mask < lanes_row or lanes_d <= mask < subgroup_size
{{ of(mask) }}
//# endif
//# endfor
{% endmacro %}
{% macro most_of(mask) %}
        most = max(most, subgroupShuffleXor(most, {{ mask }}u));
{% endmacro %}
{% macro sum_of(mask) %}
    l += subgroupShuffleXor(l, {{ mask }}u);
{% endmacro %}
@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    // Which rows of which KV head, and which keys. Heads that lie side by side in memory are neighbours in time.
    // Rows past the end are the last one again, never stored.
//# set walk = "heads"
{% include "attention/split_keys.wgsl" %}

    // The neighbours in a workgroup are taken to be neighbours in a subgroup, as drivers lay them out.
    let lane = invocation % SUBGROUP;
    let lane_d = lane % LANES_D;
    let group_lane = lane - lane_d;
    let subgroup = invocation / SUBGROUP;
    let first_key = (invocation / LANES_D) * UNROLL;
//# if ahead == "tile"
{{ fetch("k", loads_d, "kv_begin", "var ") }}
{{ fetch("v", loads_v, "kv_begin", "var ") }}
//# endif

    // The row whose scores this lane is left with, and the queries of all, that one first.
    let own_row = lane_d / LANES_ROW;
    let own = min(row0 + own_row, last_row);
    let own_query = own / sizes.group;
    let place = place_of(batch, kv_head * sizes.group + own % sizes.group);
    let factor = q_factor();
//# for r in range(rows)
    let row_{{ r }} = min(row0 + (own_row ^ {{ r }}u), last_row);
    let start_{{ r }} = q_row(batch, kv_head * sizes.group + row_{{ r }} % sizes.group, row_{{ r }} / sizes.group);
//# for i in range(loads_d)
    let q_{{ r }}_{{ i }} = vec4<f32>(load_q(start_{{ r }}, (lane_d + {{ i }}u * LANES_D) * 4u)) * factor;
//# endfor
//# for i in range(loads_v)
    var o_{{ r }}_{{ i }} = vec4<f32>();
//# endfor
//# endfor
    var m = NO_KEYS;  // of the lane's row: the same in all of its lanes
    var l = 0.0;  // of the lane's own scores

    for (var kv0 = kv_begin; kv0 < kv_end; kv0 += TILE_KV) {
        // Products, all loads before their use.
{{ fetch("k", loads_d, "kv0", "let ") if ahead != "tile" }}
{{ fetch("v", loads_v, "kv0", "let ") if ahead == "values" }}
//# for u in range(unroll)
//# for i in range(loads_d)
        let k_{{ u }}_{{ i }} = vec4<f32>(stored_k_{{ u }}_{{ i }});
//# endfor
//# endfor
//# for r in range(rows)
//# for u in range(unroll)
        var product_{{ r * unroll + u }} = {{ product(r, u) }};
//# endfor
//# endfor
{{ fetch("k", loads_d, "kv0 + TILE_KV", "") if ahead == "tile" }}
{{ share_out() }}

        // Scores, and their softmax.
//# for i in range(held)
        let score_{{ i }} = finish(product_{{ i }}, place, own_query, kv0 + first_key + {{ "(lane_d / SPREAD * HELD + %du) %% UNROLL" % i }});
//# endfor
        var most = score_0;
//# for i in range(1, held)
        most = max(most, score_{{ i }});
//# endfor
{{ over_row(most_of) }}
        most = max(most, m);
        let shrink = exp2(m - most);
        m = most;
        l *= shrink;
//# for i in range(held)
        let p_{{ i }} = exp2(score_{{ i }} - m);
        l += p_{{ i }};
//# endfor

        // P·V: each lane its columns of all rows.
{{ fetch("v", loads_v, "kv0", "let ") if ahead == "no" }}
//# for r in range(rows)
        {
            let shrink_row = subgroupShuffle(shrink, {{ r * lanes_row }}u);
//# for i in range(loads_v)
            o_{{ r }}_{{ i }} *= shrink_row;
//# endfor
        }
//# endfor
//# for u in range(unroll)
        {
//# for i in range(loads_v)
            let v_{{ i }} = vec4<f32>(stored_v_{{ u }}_{{ i }});
//# endfor
//# for r in range(rows)
//# set value = r * unroll + u
            let p_of_{{ r }} = subgroupShuffle(p_{{ value % held }}, group_lane + {{ value // held * spread }}u);
//# for i in range(loads_v)
            o_{{ r }}_{{ i }} = fma(vec4<f32>(p_of_{{ r }}), v_{{ i }}, o_{{ r }}_{{ i }});
//# endfor
//# endfor
        }
//# endfor
{{ fetch("v", loads_v, "kv0 + TILE_KV", "") if ahead == "tile" }}
    }

    // What the lanes of a subgroup have, put together; then the subgroups.
{{ over_row(sum_of) }}
    if (lane < LANES_D && lane % LANES_ROW == 0u) { part_peaks[subgroup][lane / LANES_ROW] = vec2<f32>(m, l); }
//# for r in range(rows)
//# for i in range(loads_v)
//# for mask in masks if lanes_d <= mask < subgroup_size
    o_{{ r }}_{{ i }} += subgroupShuffleXor(o_{{ r }}_{{ i }}, {{ mask }}u);
//# endfor
    if (group_lane == {{ i % groups * lanes_d }}u{{ " && lane_d + %du * LANES_D < QUADS_V" % i if (i + 1) * lanes_d > quads_v }}) { part_sums[subgroup][{{ r }}u][lane_d + {{ i }}u * LANES_D] = o_{{ r }}_{{ i }}; }
//# endfor
//# endfor
    workgroupBarrier();

    for (var i = invocation; i < (last_row - row0 + 1u) * QUADS_V; i += INVOCATIONS) {
        let r = i / QUADS_V;
        let quad = i % QUADS_V;
{{ together(subgroups, "part_peaks[%du][r]", "part_sums[%du][r][quad]") }}
        let head = kv_head * sizes.group + (row0 + r) % sizes.group;
        let at = ((split * sizes.batch + batch) * sizes.heads + head) * sizes.seq + (row0 + r) / sizes.group;
        sums[at * QUADS_V + quad] = row_sum;
        if (quad == 0u) { peaks[at] = vec2<f32>(row_m, row_l); }
    }
}
