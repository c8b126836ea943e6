//# if f16
enable f16;

//# endif
// Attention of few queries: nothing but reading K and V once, as fast as memory goes. The keys of a KV head are
// split over workgroups, so that even one query fills a GPU; each workgroup leaves, for each of its rows, O not
// yet divided, the largest score m and the sum l, which flash_merge.wgsl puts together. (Flash-Decoding: Dao,
// Haziza, Massa and Sizov, 2023.) All query heads of a group and all queries are rows of the same workgroup,
// since they read the same K and V.
//
//        K: [key][element]                     V: [key][column]
//   slot 0 ▸ LANES_D invocations a key          value_slot 0 ▸ one invocation for every four columns
//   slot 1 ▸ …, UNROLL keys each                value_slot 1 ▸ …
//
//   rows       rows of a workgroup, e.g. 4: (query, head of the group) pairs
//   lanes_d    invocations that share a product q·k, e.g. 8: they read neighbouring vec4s of a key
//   slots      keys side by side, e.g. 32
//   unroll     keys of an invocation at a time, e.g. 4: so many loads are under way at once
//   steps      how often: a workgroup takes slots · unroll · steps keys in all
//   ahead      what is loaded before it is asked for: no; values: V, before the scores are known; tile: also the K and
//              V of the next step, as soon as their registers are free
//   vector     elements a memory access moves: 4 or 1
//# set invocations = lanes_d * slots
//# set tile_kv = slots * unroll
//# set quads_d = (head_dim + 3) // 4
//# set loads_d = (quads_d + lanes_d - 1) // lanes_d
//# set quads_v = (v_head_dim + 3) // 4
//# set value_slots = invocations // quads_v
//# set loads_v = (tile_kv + value_slots - 1) // value_slots
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
const SLOTS = {{ slots }}u;
const UNROLL = {{ unroll }}u;
const STEPS = {{ steps }}u;
const INVOCATIONS = {{ invocations }}u;
const TILE_KV = SLOTS * UNROLL;
const SPLIT = TILE_KV * STEPS;  // keys of a workgroup
const QUADS_D = {{ loads_d * lanes_d }}u;  // vec4s of a query, to whole rounds of the lanes
const QUADS_V = {{ quads_v }}u;
const VALUE_SLOTS = INVOCATIONS / QUADS_V;

var<workgroup> queries: array<array<vec4<f32>, QUADS_D>, ROWS>;
var<workgroup> parts: array<array<array<f32, LANES_D + 1u>, TILE_KV>, ROWS>;  // of products, one a lane
var<workgroup> scores: array<array<f32, TILE_KV>, ROWS>;
var<workgroup> slot_sums: array<vec4<f32>, INVOCATIONS>;
var<workgroup> slot_peaks: array<vec2<f32>, VALUE_SLOTS>;

{# Memory -> registers, as stored: what an invocation has of K and of V in the step that begins at kv0. -#}
{% macro fetch_k(kv0, to) %}
//# for d in range(loads_d)
//# for u in range(unroll)
        {{ to }}stored_k_{{ u }}_{{ d }} = load_k(k_begin + min({{ kv0 }} + slot + {{ u }}u * SLOTS, last_read) * sizes.k_row, (lane + {{ d }}u * LANES_D) * 4u);
//# endfor
//# endfor
{% endmacro %}
{% macro fetch_v(kv0, to) %}
//# for n in range(loads_v)
        {{ to }}stored_v_{{ n }} = load_v(v_begin + min({{ kv0 }} + value_slot + {{ n }}u * VALUE_SLOTS, last_read) * sizes.v_row, column);
//# endfor
{% endmacro %}
{% macro product(u) %}{% for d in range(loads_d) %}dot(q_{{ d }}, k_{{ u }}_{{ d }}){{ " + " if not loop.last }}{% endfor %}{% endmacro %}
@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    // Which rows of which KV head, and which keys. Rows past the end are the last one again, never stored.
//# set walk = "splits"
{% include "attention/split_keys.wgsl" %}
    let factor = q_factor();

    let lane = invocation % LANES_D;
    let slot = invocation / LANES_D;
    let value_slot = invocation / QUADS_V;  // those past VALUE_SLOTS have no columns left
    let column = invocation % QUADS_V * 4u;

    for (var i = invocation; i < ROWS * QUADS_D; i += INVOCATIONS) {
        let row = min(row0 + i / QUADS_D, last_row);
        let start = q_row(batch, kv_head * sizes.group + row % sizes.group, row / sizes.group);
        queries[i / QUADS_D][i % QUADS_D] = vec4<f32>(load_q(start, i % QUADS_D * 4u)) * factor;
    }
//# for r in range(rows)
    var m_{{ r }} = NO_KEYS;
    var l_{{ r }} = 0.0;
    var o_{{ r }} = vec4<f32>();
//# endfor
//# if ahead == "tile"
{{ fetch_k("kv_begin", "var ") }}
{{ fetch_v("kv_begin", "var ") }}
//# endif
    workgroupBarrier();

    for (var kv0 = kv_begin; kv0 < kv_end; kv0 += TILE_KV) {
        // Products: each lane its vec4s of a few keys, all loads before their use.
{{ fetch_k("kv0", "let ") if ahead != "tile" }}
{{ fetch_v("kv0", "let ") if ahead == "values" }}
//# for u in range(unroll)
//# for d in range(loads_d)
        let k_{{ u }}_{{ d }} = vec4<f32>(stored_k_{{ u }}_{{ d }});
//# endfor
//# endfor
//# for r in range(rows)
        {
//# for d in range(loads_d)
            let q_{{ d }} = queries[{{ r }}u][lane + {{ d }}u * LANES_D];
//# endfor
//# for u in range(unroll)
            parts[{{ r }}u][slot + {{ u }}u * SLOTS][lane] = {{ product(u) }};
//# endfor
        }
//# endfor
{{ fetch_k("kv0 + TILE_KV", "") if ahead == "tile" }}
        workgroupBarrier();

        // Scores: one invocation a row and key.
        for (var i = invocation; i < ROWS * TILE_KV; i += INVOCATIONS) {
            let r = i / TILE_KV;
            let key = i % TILE_KV;
            var product = 0.0;
//# for d in range(lanes_d)
            product += parts[r][key][{{ d }}u];
//# endfor
            let row = min(row0 + r, last_row);
            let place = place_of(batch, kv_head * sizes.group + row % sizes.group);
            scores[r][key] = finish(product, place, row / sizes.group, kv0 + key);
        }
        workgroupBarrier();

        // P·V: each slot has a softmax of its own over its keys.
{{ fetch_v("kv0", "let ") if ahead == "no" }}
//# for n in range(loads_v)
        let v_{{ n }} = vec4<f32>(stored_v_{{ n }});
//# endfor
        if (value_slot < VALUE_SLOTS) {
//# for r in range(rows)
            {
                var most = m_{{ r }};
//# for n in range(loads_v)
//# set key = "value_slot + %du * VALUE_SLOTS" % n
//# if (n + 1) * value_slots > tile_kv
                var s_{{ n }} = MASKED;
                if ({{ key }} < TILE_KV) { s_{{ n }} = scores[{{ r }}u][{{ key }}]; }
//# else
                let s_{{ n }} = scores[{{ r }}u][{{ key }}];
//# endif
                most = max(most, s_{{ n }});
//# endfor
                let shrink = exp2(m_{{ r }} - most);
                m_{{ r }} = most;
                l_{{ r }} *= shrink;
                o_{{ r }} *= shrink;
//# for n in range(loads_v)
                let p_{{ n }} = exp2(s_{{ n }} - most);
                l_{{ r }} += p_{{ n }};
                o_{{ r }} = fma(vec4<f32>(p_{{ n }}), v_{{ n }}, o_{{ r }});
//# endfor
            }
//# endfor
        }
{{ fetch_v("kv0 + TILE_KV", "") if ahead == "tile" }}
    }

    // The slots of a row put together, one row after the other.
//# for r in range(rows)
    workgroupBarrier();
    slot_sums[invocation] = o_{{ r }};
    if (value_slot < VALUE_SLOTS && column == 0u) { slot_peaks[value_slot] = vec2<f32>(m_{{ r }}, l_{{ r }}); }
    workgroupBarrier();
    if (invocation < QUADS_V && row0 + {{ r }}u < all_rows) {
        var m = slot_peaks[0].x;
        for (var i = 1u; i < VALUE_SLOTS; i++) { m = max(m, slot_peaks[i].x); }
        var l = 0.0;
        var total = vec4<f32>();
        for (var i = 0u; i < VALUE_SLOTS; i++) {
            let weight = exp2(slot_peaks[i].x - m);
            l += slot_peaks[i].y * weight;
            total += slot_sums[i * QUADS_V + invocation] * weight;
        }
        let head = kv_head * sizes.group + (row0 + {{ r }}u) % sizes.group;
        let at = ((split * sizes.batch + batch) * sizes.heads + head) * sizes.seq + (row0 + {{ r }}u) / sizes.group;
        sums[at * QUADS_V + invocation] = total;
        if (invocation == 0u) { peaks[at] = vec2<f32>(m, l); }
    }
//# endfor
}
