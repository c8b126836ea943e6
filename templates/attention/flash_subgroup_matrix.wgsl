//# include "lib/enable_matrices.wgsl"
// Attention on matrix units. The walk is that of flash.wgsl: a workgroup keeps a tile of queries and walks over
// the keys, TILE_KV at a time; per tile S = Q·Kᵀ, P = exp2(S − m), O = O + P·V. (FlashAttention-2: Dao, 2023.)
// Each subgroup has ROWS queries of its own and all keys of the tile, so that subgroups share K and V only. Its
// matrix units multiply M×K by K×N matrices ("fragments"), which lie spread over its lanes in an order that
// nobody knows. So what a lane has to see passes through the subgroup's strip of workgroup memory:
//
//   registers          workgroup memory        registers            workgroup memory     registers
//   fragments of S ──▶ strip_s, f32       ──▶  a lane's scores ──▶  strip_p, f16    ──▶  fragments of P
//   (= Q·Kᵀ)           ROWS × TILE_KV          m, l, exp2           ROWS × TILE_KV       · V = fragments of O
//
// O stays in fragments. They cannot be multiplied row by row, so that is put off: m is a bound from earlier tiles,
// not the largest score, until a score exceeds it by more than SLACK. Only then m grows, and O passes through
// strip_s to be rescaled. P stays below 2^SLACK, which f16 holds with room to spare, and what m is cancels out at the
// end, when O is divided by the sum of P. (Putting it off: FlashAttention-4, 2025.)
//
//   matrix         what matrix units multiply at once, m×n×k, e.g. 16x16x16: one of the adapter's shapes
//   subgroup_size  lanes of a subgroup, which the device must have, e.g. 32
//   subgroups      subgroups of a workgroup, e.g. 4; together they have subgroups · rows queries
//   rows           queries of a subgroup, a multiple of m, e.g. 16
//   tile_kv        keys of a step, a multiple of n and k, e.g. 64
//   parts_v        workgroups that share the columns of V, each with all scores, e.g. 1: wide heads take many registers
//   row_lanes      lanes that share a row in the softmax, e.g. 2; with more rows than lanes they take several in turn
//   q_from         registers: fragments of Q stay there; workgroup: Q stays in workgroup memory
//   k_from, v_from workgroup: the tile passes through workgroup memory, for all subgroups; storage: fragments come
//                  straight from memory and its caches, where tiles and rows are whole
//   ahead          when the next tile of K and this one of V are loaded into registers: before the "scores", before
//                  the "softmax", or ("no") when they are stored to workgroup memory
//   scores         type that Q·Kᵀ is added up in: f32, or f16 where the problem allows it. Q is then scaled first, and
//                  P takes the place of S in memory
//   pad            vec4s added to rows of f16 in workgroup memory, 0 or 2; rows of scores have a pad in any case
//   unroll         true: both products are written out; false: they are loops over depth and keys
//   slack          how far scores may exceed m, in powers of two: 0 or 8
//   vector         elements a memory access moves: 4 or 1
//
// Three barriers a step: when S is written (and K read); when P is (and V, and the next K); and one more, since
// that is also when all learn whether some m grew.
//# set lanes = subgroup_size
//# set invocations = subgroups * subgroup_size
//# set depth = (head_dim + k - 1) // k * k
//# set width = (v_head_dim + n * parts_v - 1) // (n * parts_v) * n
//# set k_staged = k_from == "workgroup"
//# set v_staged = v_from == "workgroup"
//# set v0 = "v0 + " if parts_v > 1 else ""
//# set halves = scores == "f16"
//# set at_once = lanes // row_lanes
//# set turns = rows // at_once
//# set quads = tile_kv // 4 // row_lanes
//# set strip_cols = n if halves else tile_kv
//# set blocks = rows // m
//# set cols_s = tile_kv // n
//# set cols_o = width // n
//# set steps_d = depth // k
//# set steps_kv = tile_kv // k
//# set name_of = {"k": "qkv", "v": "qkv"} if packed else {"k": "k", "v": "v"}
//# set elementwise = softcap or alibi or mask != "none"
{% from "attention/matrix_carry.wgsl" import declare, fetch, commit with context %}
{% from "attention/matrix_rows.wgsl" import exchange, through_strip with context %}
{% from "attention/matrix_products.wgsl" import carry_q, scores_step, values_step with context %}
{{ "" }}
{% include "lib/sizes.wgsl" %}

{% include "attention/operands.wgsl" %}

{% include "attention/scores.wgsl" %}

{% include "attention/online_softmax.wgsl" %}

//# set tiles = true
{% include "attention/keys.wgsl" %}

{% include "lib/grid.wgsl" %}

const LANES = {{ lanes }}u;
const SUBGROUPS = {{ subgroups }}u;
const INVOCATIONS = {{ invocations }}u;
const ROWS = {{ rows }}u;
const TILE_Q = {{ subgroups * rows }}u;
const TILE_KV = {{ tile_kv }}u;
const DEPTH = {{ depth }}u;  // elements of a row of Q and K, to whole fragments
const WIDTH = {{ width }}u;  // columns of V and O that a workgroup has, to whole fragments
const ROW_LANES = {{ row_lanes }}u;
const SLACK = {{ slack }}.0;
const BESIDE = {{ at_once }}u;  // rows that a subgroup's lanes take side by side: {{ lanes }} / {{ row_lanes }}

// Pitches count vec4s. Pads spread the rows of a fragment over the banks; rows of f16 keep to 16 bytes.
const PAD = {{ pad }}u;
//# if q_from == "workgroup"
const PITCH_Q = DEPTH / 4u + PAD;
//# endif
//# if k_staged
const PITCH_K = DEPTH / 4u + PAD;
//# endif
//# if v_staged
const PITCH_V = WIDTH / 4u + PAD;
//# endif
const PITCH_P = TILE_KV / 4u + PAD;
const PITCH_S = {{ strip_cols }}u / 4u + {{ [row_lanes, 2] | max }}u;

alias Left = subgroup_matrix_left<f16, {{ k }}, {{ m }}>;  // columns first
alias Right = subgroup_matrix_right<f16, {{ n }}, {{ k }}>;
alias Sums = subgroup_matrix_result<f32, {{ n }}, {{ m }}>;
alias Scores = subgroup_matrix_result<{{ scores }}, {{ n }}, {{ m }}>;

//# if q_from == "workgroup"
var<workgroup> tile_of_q: array<vec4<f16>, TILE_Q * PITCH_Q>;  // [query][element / 4]
//# endif
//# if k_staged
var<workgroup> tile_of_k: array<vec4<f16>, TILE_KV * PITCH_K>;  // [key][element / 4]
//# endif
//# if v_staged
var<workgroup> tile_of_v: array<vec4<f16>, TILE_KV * PITCH_V>;  // [key][column / 4]
//# endif
var<workgroup> strip_p: array<vec4<f16>, TILE_Q * PITCH_P>;  // [query][key / 4]
var<workgroup> strip_s: array<vec4<f32>, TILE_Q * PITCH_S>;  // [query][key / 4], or columns of O
var<workgroup> grown: atomic<u32>;  // the last tile, as its first key + 1, in which some m of O's rows grew

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
//# set tiles_v = parts_v
//# set width_v = "WIDTH"
{% include "attention/query_tile.wgsl" %}
    let k_begin = k_start(batch, head / sizes.group);
    let v_begin = v_start(batch, head / sizes.group);
    let factor = q_factor();

    // Which keys: those that some query of the tile sees.
    let last_row = sizes.seq - 1u;
    let kv_begin = seen_from(place.keys, q0){{ " / TILE_KV * TILE_KV" if not (k_staged and v_staged) }};
    let kv_end = seen_to(place.keys, min(q0 + ROWS * SUBGROUPS - 1u, last_row));
    let last_key = max(place.keys, 1u) - 1u;

    // Which rows: the subgroup's, and of them the lane's.
    let lane = subgroup_lane % LANES;  // remainders tell Tint how large an index can be
    let strip = subgroup % SUBGROUPS * ROWS;
    let row = strip + lane / ROW_LANES;  // and every BESIDE rows after it
    let part = lane % ROW_LANES;  // of the vec4s of a row: every ROW_LANES from there on

//# if k_staged
{{ declare("k", tile_kv, depth) }}
//# endif
//# if v_staged
{{ declare("v", tile_kv, width) }}
//# endif
//# for t in range(turns)
    var m_{{ t }} = NO_KEYS;
    var l_{{ t }} = 0.0;
    var shrink_{{ t }} = 1.0;
//# endfor
//# for r in range(blocks)
//# for c in range(cols_o)
    var o_{{ r }}_{{ c }} = Sums();
//# endfor
//# endfor
    if (invocation == 0u) { atomicStore(&grown, 0u); }

    // Queries past the end are the last one again, never stored.
//# if q_from == "workgroup"
{{ carry_q("tile_of_q", "PITCH_Q", 0, depth) }}
//# else
    // Q stays in fragments. It comes through strip_p.
//# for first in range(0, depth, tile_kv)
//# set some = [tile_kv, depth - first] | min
{{ "    workgroupBarrier();" if first }}
{{ carry_q("strip_p", "PITCH_P", first, some) }}
    workgroupBarrier();
//# for r in range(blocks)
//# for d in range(some // k)
    let q_{{ r }}_{{ first // k + d }} = subgroupMatrixLoad<Left, row_major>(&strip_p, (strip + {{ r * m }}u) * PITCH_P + {{ d * k // 4 }}u, PITCH_P);
//# endfor
//# endfor
//# endfor
//# endif
//# if k_staged
{{ fetch("k", tile_kv, depth, "kv_begin") }}
{{ commit("k", tile_kv, depth) }}
//# endif
    workgroupBarrier();

    for (var kv0 = kv_begin; kv0 < kv_end; kv0 += TILE_KV) {
//# if ahead == "scores"
{{ fetch("v", tile_kv, width, "kv0", v0) if v_staged }}
{{ fetch("k", tile_kv, depth, "(kv0 + TILE_KV)") if k_staged }}
//# endif
        // S = Q·Kᵀ. (A matrix that is only declared is not zero again in the next turn of a loop.)
//# for r in range(blocks)
//# for c in range(cols_s)
        var s_{{ r }}_{{ c }} = Scores();
//# endfor
//# endfor
//# if unroll
//# for d in range(steps_d)
{{ scores_step(d, "%du" % (d * k // 4)) }}
//# endfor
//# else
        for (var d = 0u; d < DEPTH / 4u; d += {{ k // 4 }}u) {
{{ scores_step("", "d") }}
        }
//# endif
//# for r in range(blocks)
//# for c in range(cols_s)
        subgroupMatrixStore<row_major>({{ "&strip_p" if halves else "&strip_s" }}, (strip + {{ r * m }}u) * {{ "PITCH_P" if halves else "PITCH_S" }} + {{ c * n // 4 }}u, s_{{ r }}_{{ c }}, {{ "PITCH_P" if halves else "PITCH_S" }});
//# endfor
//# endfor
//# if ahead == "softmax"
{{ fetch("v", tile_kv, width, "kv0", v0) if v_staged }}
{{ fetch("k", tile_kv, depth, "(kv0 + TILE_KV)") if k_staged }}
//# endif
        workgroupBarrier();

//# include "attention/matrix_softmax.wgsl"

//# if ahead == "no"
{{ fetch("v", tile_kv, width, "kv0", v0) if v_staged }}
{{ fetch("k", tile_kv, depth, "(kv0 + TILE_KV)") if k_staged }}
//# endif
{{ commit("v", tile_kv, width) if v_staged }}
{{ commit("k", tile_kv, depth) if k_staged }}
        if (workgroupUniformLoad(&grown) == kv0 + 1u) {
            // What was added up to now, in terms of the new m. All subgroups take part, for the barriers.
{% call(t, j, at) through_strip(reload=true) %}
                strip_s[{{ at }}] *= shrink_{{ t }};
{% endcall %}
        }

        // O += P·V.
//# if unroll
//# for step in range(steps_kv)
{{ values_step("%du" % (step * k)) }}
//# endfor
//# else
        for (var key = 0u; key < TILE_KV; key += {{ k }}u) {
{{ values_step("key") }}
        }
//# endif
    }

    // The sums of rows, over their lanes; and what O is multiplied by.
//# for t in range(turns)
{{ exchange("l_%d" % t, "+") }}
//# if sinks
    {
        // A sink takes its share of the softmax.
        let sink = sink_of(head);
        let most = max(m_{{ t }}, sink);
        shrink_{{ t }} = exp2(m_{{ t }} - most);
        l_{{ t }} = l_{{ t }} * shrink_{{ t }} + exp2(sink - most);
        m_{{ t }} = most;
        shrink_{{ t }} *= share(m_{{ t }}, l_{{ t }});
    }
//# else
    shrink_{{ t }} = share(m_{{ t }}, l_{{ t }});
//# endif
//# if lse
    if (part == 0u && {{ "v0 == 0u && " if parts_v > 1 }}q0 + row + {{ t }}u * BESIDE <= last_row) {
        lse[(batch * sizes.heads + head) * sizes.seq + q0 + row + {{ t }}u * BESIDE] = log_sum(m_{{ t }}, l_{{ t }});
    }
//# endif
//# endfor
    workgroupBarrier();
{% call(t, j, at) through_strip(reload=false) %}
    if (q0 + row + {{ t }}u * BESIDE <= last_row) {
        store_o(o_row(batch, head, q0 + row + {{ t }}u * BESIDE), {{ v0 }}{{ j }}, shrink_{{ t }} * strip_s[{{ at }}]);
    }
{% endcall %}
}
