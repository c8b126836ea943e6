//# if f16
enable f16;

//# endif
// Attention without its matrix of scores: a workgroup keeps TILE_Q queries and walks over the keys, TILE_KV at
// a time. Per tile: S = Q·Kᵀ, P = exp2(S − m) with m the largest score so far, O = O·exp2(m_old − m) + P·V.
// Dividing O by the sum of P at the end gives softmax(Q·Kᵀ)·V. (Online softmax: Milakov and Gimelshein, 2018;
// tiles: Dao et al., "FlashAttention", 2022, and Dao, "FlashAttention-2", 2023: queries over workgroups, keys
// in the inner loop.) Both products are register-blocked like a GEMM.
//
//             TILE_KV            TILE_V                 registers of an invocation, as vec4s of four rows:
//           ┌─────────┐       ┌───────────┐               s_c_i   THREAD_Q × THREAD_KV scores
//           │ Kᵀ      │ TILE_D│ V         │ V_ROWS        o_c_i   THREAD_Q × THREAD_V sums of O
//           └─────────┘       └───────────┘               m_i, l_i  maximum and sum of its rows
//   ┌────┐  ┌─────────┐       ┌───────────┐
//   │ Q  │  │ S  → P  │ ────▶ │ O         │ TILE_Q      All workgroup tiles are "k-major", so that four rows,
//   └────┘  └─────────┘       └───────────┘             keys or columns are one vec4.
//
//   tile_q, tile_kv      queries of a workgroup, keys of a step, e.g. 64, 32
//   thread_q, thread_kv  scores of an invocation, e.g. 8 × 4; rows of O likewise
//   thread_v             columns of O of an invocation, e.g. 8
//   tile_d               depth of the tiles of Q·Kᵀ, e.g. 32: K (and Q) come in pieces of that many elements
//   q_resident           true: all of Q's tile stays in workgroup memory; false: it comes with K's pieces
//   k_from, v_from       workgroup: through workgroup memory; storage: straight from memory and its caches
//   v_rows               rows of V in workgroup memory at a time, e.g. 32
//   p_sliced             false: all of P's tile in workgroup memory; true: the keys that v_rows of V belong to. Scores
//                        wait in registers, so that tile_kv, and with it thread_kv, can be large in little memory
//   along_d              neighbouring invocations along a row of Q or K when it is carried: 1, 2 or 4; from 2 on, rows
//                        of their tiles have a pad of one vec4
//   prefetch             the next pieces wait in registers while products are computed
//   vector               elements a memory access moves: 4 or 1
//   unroll               steps of a product written out, e.g. 16
//   pad_p                vec4s added to a row of P against bank conflicts, 0 or 1
//   chain                f16 products that are added up in f16 before they are added to a sum in f32; 0: all in f32
//   staged               K and V in workgroup memory: in their type of storage, or f32
//
// Two barriers a step where the tiles are as deep as the products and P is whole: one before P is overwritten
// (and the maxima can be read), one after. With slices two a slice more, in exchange for more products between loads.
//# set threads_kv = tile_kv // thread_kv
//# set threads_q = tile_q // thread_q
//# set invocations = threads_kv * threads_q
//# set tile_v = thread_v * threads_kv
//# set quads_q = thread_q // 4
//# set quads_kv = thread_kv // 4
//# set quads_v = thread_v // 4
//# set d_chunks = (head_dim + tile_d - 1) // tile_d
//# set q_depth = d_chunks * tile_d if q_resident else tile_d
//# set v_chunks = tile_kv // v_rows
//# set parts_in_p = p_sliced and not chain
//# set p_rows = v_rows if p_sliced else tile_kv
//# set components = ["x", "y", "z", "w"]
//# set k_staged = k_from == "workgroup"
//# set v_staged = v_from == "workgroup"
//# set k_pieces = tile_kv * tile_d // 16
//# set k_steps = (k_pieces + invocations - 1) // invocations
//# set v_pieces = v_rows * tile_v // 4
//# set v_steps = (v_pieces + invocations - 1) // invocations
//# set q_pieces = tile_q * tile_d // 16
//# set q_steps = (q_pieces + invocations - 1) // invocations
//# set in_pieces = d_chunks > 1 and (k_staged or not q_resident)
//# set depth = tile_d if in_pieces else d_chunks * tile_d
//# set steps_d = [unroll, depth] | min
//# set length = v_rows if v_chunks > 1 and v_staged else tile_kv
//# set steps_v = [unroll, length] | min
//# set elementwise = softcap or alibi or mask != "none"
{% from "attention/flash_carry.wgsl" import fetch_qk, commit_qk, fetch_v, commit_v, turned, quad_of, slot_of with context %}
{% from "attention/flash_products.wgsl" import rows, cols, row_part, p_of, scores, values with context %}
{{ "" }}
{% include "lib/sizes.wgsl" %}

{% include "attention/operands.wgsl" %}

{% include "attention/scores.wgsl" %}

{% include "attention/online_softmax.wgsl" %}

//# set tiles = true
{% include "attention/keys.wgsl" %}

{% include "lib/grid.wgsl" %}

const TILE_Q = {{ tile_q }}u;
const TILE_KV = {{ tile_kv }}u;
const TILE_D = {{ tile_d }}u;
const TILE_V = {{ tile_v }}u;  // columns of V: {{ thread_v }} for each invocation along the keys
const V_ROWS = {{ v_rows }}u;
const THREADS_KV = {{ threads_kv }}u;  // invocations along keys and columns: {{ tile_kv }} / {{ thread_kv }}
const THREADS_Q = {{ threads_q }}u;  // invocations along queries: {{ tile_q }} / {{ thread_q }}
const INVOCATIONS = {{ invocations }}u;
const Q_DEPTH = {{ q_depth }}u;
const PITCH_Q = TILE_Q / 4u{{ " + 1u" if along_d > 1 }};
const PITCH_K = TILE_KV / 4u{{ " + 1u" if along_d > 1 }};
const PITCH_P = TILE_Q / 4u{{ " + 1u" if pad_p }};
const STEPS_V = {{ steps_v }}u;

alias Staged = {{ "f32" if staged == "f32" else dtype }};
alias Product = {{ "f16" if chain else "f32" }};

// Nested arrays: a constant index is never clamped, and the clamp of a thread's own column is the same
// expression for every step. So the steps that are written out have a dimension of their own.
var<workgroup> tile_of_q: array<array<array<vec4<Product>, PITCH_Q>, 4>, Q_DEPTH / 4u>;  // [element / 4][element % 4][query / 4]
//# if k_staged
var<workgroup> tile_of_k: array<array<array<vec4<Staged>, PITCH_K>, 4>, TILE_D / 4u>;  // [element / 4][element % 4][slot]: see key_of
//# endif
//# if v_staged
var<workgroup> tile_of_v: array<array<array<vec4<Staged>, TILE_V / 4u>, STEPS_V>, V_ROWS / STEPS_V>;  // [key / STEPS_V][key % STEPS_V][column / 4]
//# endif
var<workgroup> tile_of_p: array<array<array<vec4<Product>, PITCH_P>, STEPS_V>, {{ p_rows // steps_v }}>;  // [key / STEPS_V][key % STEPS_V][query / 4]
//# if not parts_in_p
var<workgroup> row_parts: array<array<vec4<f32>, TILE_Q / 4u + 1u>, THREADS_KV>;  // maxima, sums of each invocation
//# endif

// The first key of a slot of K's tile: its four keys lie THREADS_KV apart, so that neighbouring invocations
// have neighbouring keys, and write neighbouring rows of P.
fn key_of(slot: u32) -> u32 {
    return slot{{ " % THREADS_KV + slot / THREADS_KV * (4u * THREADS_KV)" if quads_kv > 1 }};
}

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
//# set tiles_v = (v_head_dim + tile_v - 1) // tile_v
//# set width_v = "TILE_V"
{% include "attention/query_tile.wgsl" %}
    let k_begin = k_start(batch, head / sizes.group);
    let v_begin = v_start(batch, head / sizes.group);
    let factor = q_factor();

    // Which keys: those that some query of the tile sees.
    let last_row = min(q0 + TILE_Q, sizes.seq) - 1u;
    let kv_begin = seen_from(place.keys, q0);
    let kv_end = seen_to(place.keys, last_row);
    let last_key = max(place.keys, 1u) - 1u;

    // Which register block.
    let x = invocation % THREADS_KV;
    let y = invocation / THREADS_KV;

//# if k_staged
//# for s in range(k_steps)
//# for r in range(4)
    var fetched_k_{{ s }}_{{ r }} = vec4<Stored>();
//# endfor
//# endfor
//# endif
//# if not q_resident
//# for s in range(q_steps)
//# for r in range(4)
    var fetched_q_{{ s }}_{{ r }} = vec4<Stored>();
//# endfor
//# endfor
//# endif
//# if v_staged
//# for s in range(v_steps)
    var fetched_v_{{ s }} = vec4<Stored>();
//# endfor
//# endif
//# for i in range(quads_q)
    var m_{{ i }} = vec4<f32>(NO_KEYS);
    var l_{{ i }} = vec4<f32>();
//# endfor
//# for c in range(thread_v)
//# for i in range(quads_q)
    var o_{{ c }}_{{ i }} = vec4<f32>();
//# endfor
//# endfor

//# if q_resident
    // Q stays: 4×4 blocks, scaled and turned around. Queries past the end are the last one again, never stored.
    for (var piece = invocation; piece < TILE_Q / 4u * (Q_DEPTH / 4u); piece += INVOCATIONS) {
        let quad = {{ quad_of("piece", "TILE_Q") }};
        let slot = {{ slot_of("piece", "TILE_Q") }};
//# for r in range(4)
        let q_0_{{ r }} = vec4<f32>(load_q(q_row(batch, head, min(q0 + slot * 4u + {{ r }}u, sizes.seq - 1u)), quad * 4u));
//# endfor
{{ turned("tile_of_q", "q", 0, "slot", "Product", " * factor") }}
    }
//# endif
{{ fetch_qk("kv_begin", "0u") }}
{{ commit_qk() }}
    workgroupBarrier();

    for (var kv0 = kv_begin; kv0 < kv_end; kv0 += TILE_KV) {
//# if not k_staged
//# for c in range(thread_kv)
        let k_row_{{ c }} = k_begin + min(kv0 + x + {{ c * threads_kv }}u, last_key) * sizes.k_row;
//# endfor
//# endif
//# for c in range(thread_kv)
//# for i in range(quads_q)
        var s_{{ c }}_{{ i }} = vec4<f32>();
//# endfor
//# endfor
//# if prefetch
{{ fetch_v("kv0") }}
//# if d_chunks == 1
{{ fetch_qk("(kv0 + TILE_KV)", "0u") if k_staged or not q_resident }}
//# endif
//# endif

        // S = Q·Kᵀ.
//# if in_pieces
        for (var d0 = 0u; d0 < HEAD_DIM; d0 += TILE_D) {
            let more = d0 + TILE_D < HEAD_DIM;
//# if prefetch
            // The next piece, or the first of the next tile.
            let next_d0 = select(0u, d0 + TILE_D, more);
            let next_kv0 = select(kv0 + TILE_KV, kv0, more);
{{ fetch_qk("next_kv0", "next_d0") }}
//# endif
//# if steps_d == depth
{{ scores("d0 / 4u + ", "") }}
//# else
            for (var b = 0u; b < TILE_D / 4u; b += {{ steps_d // 4 }}u) {
{{ scores("d0 / 4u + ", "b + ") }}
            }
//# endif
            if (more) {
                workgroupBarrier();
//# if not prefetch
{{ fetch_qk("kv0", "(d0 + TILE_D)") }}
//# endif
{{ commit_qk() }}
                workgroupBarrier();
            }
        }
//# else
//# if steps_d == depth
{{ scores("", "") }}
//# else
        for (var b = 0u; b < {{ depth // 4 }}u; b += {{ steps_d // 4 }}u) {
{{ scores("", "b + ") }}
        }
//# endif
//# endif

        // Additions and masks{{ "" if elementwise else ", where the tile lies on an edge" }}.
//# if not elementwise
        if (!all_seen(place.keys, q0, last_row, kv0, TILE_KV)) {
//# endif
//# for i in range(quads_q)
            {
                let row = vec4<u32>(q0 + ({{ rows(i) }}) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
                let at = min(row, vec4<u32>(sizes.seq - 1u));
//# for c in range(thread_kv)
                s_{{ c }}_{{ i }} = finish(s_{{ c }}_{{ i }}, place, at, kv0 + x + {{ c * threads_kv }}u);
//# endfor
            }
//# endfor
//# if not elementwise
        }
//# endif

        // The largest score of each row, over all its invocations.
//# for i in range(quads_q)
        var most_{{ i }} = s_0_{{ i }};
//# for c in range(1, thread_kv)
        most_{{ i }} = max(most_{{ i }}, s_{{ c }}_{{ i }});
//# endfor
//# endfor
//# if parts_in_p and not in_pieces
        workgroupBarrier();  // sums of the last step still read P's memory
//# endif
//# for i in range(quads_q)
        {{ row_part("x", i) }} = most_{{ i }};
//# endfor
        workgroupBarrier();
//# for i in range(quads_q)
        most_{{ i }} = m_{{ i }};
//# for other in range(threads_kv)
        most_{{ i }} = max(most_{{ i }}, {{ row_part(other, i) }});
//# endfor
//# endfor

        // What was summed up to now, in terms of the new maximum.
//# for i in range(quads_q)
        let shrink_{{ i }} = exp2(m_{{ i }} - most_{{ i }});
        m_{{ i }} = most_{{ i }};
        l_{{ i }} *= shrink_{{ i }};
//# for c in range(thread_v)
        o_{{ c }}_{{ i }} *= shrink_{{ i }};
//# endfor
//# endfor

//# if p_sliced
//# include "attention/flash_slices.wgsl"
//# else
//# include "attention/flash_whole.wgsl"
//# endif
    }

    // The sums of rows, over all their invocations.
//# if parts_in_p
    workgroupBarrier();
//# endif
//# for i in range(quads_q)
    {{ row_part("x", i) }} = l_{{ i }};
//# endfor
    workgroupBarrier();
//# for i in range(quads_q)
    l_{{ i }} = vec4<f32>();
//# for other in range(threads_kv)
    l_{{ i }} += {{ row_part(other, i) }};
//# endfor
//# endfor
//# if sinks

    // A sink takes its share of the softmax.
    let sink = sink_of(head);
//# for i in range(quads_q)
    {
        let most = max(m_{{ i }}, vec4<f32>(sink));
        let shrink = exp2(m_{{ i }} - most);
        l_{{ i }} = l_{{ i }} * shrink + exp2(vec4<f32>(sink) - most);
        m_{{ i }} = most;
//# for c in range(thread_v)
        o_{{ c }}_{{ i }} *= shrink;
//# endfor
    }
//# endfor
//# endif

    // Four rows of four columns at a time; a row without any key is 0.
//# for i in range(quads_q)
    {
        let inverse = share(m_{{ i }}, l_{{ i }});
        let row = q0 + ({{ rows(i) }}) * 4u;
//# for r in range(4)
        if (row + {{ r }}u < sizes.seq) {
            let start = o_row(batch, head, row + {{ r }}u);
//# for j in range(quads_v)
            store_o(start, v0 + ({{ cols(j) }}) * 4u, inverse.{{ components[r] }} * vec4<f32>({% for c in range(4) %}o_{{ 4 * j + c }}_{{ i }}.{{ components[r] }}{{ ", " if c < 3 }}{% endfor %}));
//# endfor
//# if lse
            if (x == 0u{{ " && v0 == 0u" if tiles_v > 1 }}) {
                lse[(batch * sizes.heads + head) * sizes.seq + row + {{ r }}u] = log_sum(m_{{ i }}.{{ components[r] }}, l_{{ i }}.{{ components[r] }});
            }
//# endif
        }
//# endfor
    }
//# endfor
}
