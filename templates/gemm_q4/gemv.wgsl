//# if f16
enable f16;

//# endif
//# if reduce == "subgroup"
enable subgroups;

//# endif
//# if dequant == "convert"
requires packed_4x8_integer_dot_product;

//# endif
// GEMM with weights in 4 bits for few rows of A: the matrix-vector product of a language model that
// writes a token. Every code is used only ROWS times, so memory sets the speed: LANES_K neighbours read
// a column's codes side by side, several loads under way each, and do as little as they can for a code.
//
//                 K →
//      column n  │0│1│2│..│0│1│2│..│    one row of `weights`: lane l takes every LANES_K-th load of
//      column n+1│0│1│2│..│0│1│2│..│    WORDS words, for COLUMNS columns at once, so that each
//                                       value of A that it reads serves them all
//      Σ over the lanes
//
//   rows      rows of A and C a workgroup takes, e.g. 1
//   columns   columns of W an invocation takes, e.g. 4
//   lanes_n   invocations along N, e.g. 4: a workgroup takes lanes_n · columns columns
//   lanes_k   invocations along K, e.g. 32, a power of two
//   words     words a load moves, e.g. 4: 32 codes (K must be a multiple of them)
//   unroll_k  loads an invocation has under way for each column, e.g. 2
//   staging   memory: A is read where it lies, 32 · WORDS bytes from lane to lane;
//             workgroup: a round's part of A is laid out in workgroup memory so that lanes read neighbours
//   dequant   subtract: codes become numbers by way of a mantissa, and a subtraction each; convert: by an
//             instruction that converts integers, and the zero point is taken out for all that share a scale
//   reduce    tree: lanes add up through workgroup memory; subgroup: by exchange within subgroups first
{% from "lib/lane_sum.wgsl" import lane_sum %}
//# set step = 8 * words
//# set quads_a = 2 * words
//# set parts = [step // group, 1] | max
//# set quads = quads_a // parts
//# set sums = [columns, 4] | min
//# set element = "Sum" if sums == 1 else "vec%d<Sum>" % sums
//# set components = [".x", ".y", ".z", ".w"]
//# set staged = staging == "workgroup"
//# set invocations = lanes_n * lanes_k
//# set a_round = unroll_k * lanes_k

{% include "lib/sizes.wgsl" %}

{% include "gemm_q4/operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

{% include "gemm_q4/codes.wgsl" %}

{% include "lib/grid.wgsl" %}

const ROWS = {{ rows }}u;
const LANES_N = {{ lanes_n }}u;
const LANES_K = {{ lanes_k }}u;
const COLUMNS = {{ columns }}u;
const STEP = {{ step }}u;  // k of a load
//# if staged
const QUADS = {{ quads_a }}u;  // vec4s of A that go with a load
const ROUND = {{ a_round }}u;  // loads of a column in a round

// A's part of a round, [row][vec4 of a load][load]; a row is one longer, so that storing goes to different banks.
var<workgroup> tile_a: array<array<array<vec4<Stored>, ROUND + 1u>, QUADS>, ROWS>;
//# endif

// Sums of one row, those of {{ sums }} column(s) an invocation.
var<workgroup> partial: array<array<{{ element }}, LANES_N>, LANES_K>;

// C[row][col] where it exists.
fn store_one(row: u32, col: u32, sum: Sum) {
    if (row < sizes.m && col < sizes.n) { put(0u, row, col, sum); }
}

{% include "lib/add_dot.wgsl" %}
{% macro component(index) %}{{ "" if words == 1 else components[index] }}{% endmacro %}
{% macro fetch(count, last) %}
        // Loads first: {{ count }} for each column, and the scales they need.
//# for u in range(count)
        let at_{{ u }} = {{ "min(load + %du, loads - 1u)" % (u * lanes_k) if last else "load + %du" % (u * lanes_k) }};
//# for j in range(columns)
        let words_{{ u }}_{{ j }} = weights[weights_start_{{ j }} + at_{{ u }}];
//# endfor
//# endfor
//# for u in range(count)
//# for j in range(columns)
//# for p in range(parts)
//# if parts == 1
        let scale_{{ u }}_{{ j }}_0 = Sum(scales[scales_start_{{ j }} + at_{{ u }} / {{ group // step }}u]);
//# else
        let scale_{{ u }}_{{ j }}_{{ p }} = Sum(scales[scales_start_{{ j }} + at_{{ u }} * {{ parts }}u + {{ p }}u]);
//# endif
//# endfor
//# endfor
//# endfor
{% endmacro %}
{% macro multiply(count) %}
//# for u in range(count)
//# for p in range(parts)
        {
            // {{ 4 * quads }} k that share a scale.
//# for r in range(rows)
//# if dequant != "subtract"
            var sum_a_{{ r }} = Sum();
//# endif
//# for j in range(columns)
            var q_{{ r }}_{{ j }} = Sum();
//# endfor
//# endfor
//# for quad in range(p * quads, (p + 1) * quads)
            {
//# for j in range(columns)
                let w_{{ j }} = {{ "upper" if quad % 2 else "lower" }}_codes(words_{{ u }}_{{ j }}{{ component(quad // 2) }});
//# endfor
//# for r in range(rows)
                let a_{{ r }} = vec4<Sum>({{ "tile_a[%d][%d][local.y + %du]" % (r, quad, u * lanes_k) if staged else "a[a_start_%d + at_%d * %du + %du]" % (r, u, quads_a, quad) }});
//# if dequant != "subtract"
                sum_a_{{ r }} += a_{{ r }}.x + a_{{ r }}.y + a_{{ r }}.z + a_{{ r }}.w;
//# endif
//# for j in range(columns)
                q_{{ r }}_{{ j }} = add_dot(q_{{ r }}_{{ j }}, a_{{ r }}, w_{{ j }});
//# endfor
//# endfor
            }
//# endfor
//# for r in range(rows)
//# for j in range(columns)
            sum_{{ r }}_{{ j }} = fma(scale_{{ u }}_{{ j }}_{{ p }}, q_{{ r }}_{{ j }}{{ "" if dequant == "subtract" else " - ZERO * sum_a_%d" % r }}, sum_{{ r }}_{{ j }});
//# endfor
//# endfor
        }
//# endfor
//# endfor
{% endmacro %}
{% macro stage() %}
        // A's part of the round, side by side by their places in a load; zeros past the end.
//# set vec4s = a_round * quads_a
//# for r in range(rows)
//# for s in range((vec4s + invocations - 1) // invocations)
//# set i = "i_%d_%d" % (r, s)
        {
            let i = invocation + {{ s * invocations }}u;
//# if (s + 1) * invocations > vec4s
            if (i < {{ vec4s }}u) {
//# endif
            tile_a[{{ r }}][i % QUADS][i / QUADS] = select(vec4<Stored>(), a[a_start_{{ r }} + min(first * QUADS + i, sizes.k / 4u - 1u)], first * QUADS + i < sizes.k / 4u);
//# if (s + 1) * invocations > vec4s
            }
//# endif
        }
//# endfor
//# endfor
{% endmacro %}

@compute @workgroup_size({{ invocations }})
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
//# if reduce == "subgroup"
    @builtin(subgroup_size) subgroup_size: u32,
//# endif
) {
    // Workgroups that share columns of W follow each other. Past the last tile, all of one leave together.
    let tiles_m = (sizes.m + ROWS - 1u) / ROWS;
    let tiles_n = (sizes.n + LANES_N * COLUMNS - 1u) / (LANES_N * COLUMNS);
    let id = linear_workgroup(workgroup, grid);
    if (id >= tiles_m * tiles_n) { return; }
    let local = vec2<u32>(invocation / LANES_K, invocation % LANES_K);  // place along N, place along K
    let first_row = id % tiles_m * ROWS;
    let first_col = (id / tiles_m * LANES_N + local.x) * COLUMNS;

    // Rows and columns past the edge read the last one instead; their sums are never stored.
    let loads = sizes.k / STEP;  // of a column
//# for r in range(rows)
    let a_start_{{ r }} = min(first_row + {{ r }}u, sizes.m - 1u) * (sizes.k / 4u);
//# endfor
//# for j in range(columns)
    let column_{{ j }} = min(first_col + {{ j }}u, sizes.n - 1u);
    let weights_start_{{ j }} = column_{{ j }} * loads;
    let scales_start_{{ j }} = column_{{ j }} * (sizes.k / GROUP);
//# endfor
//# for r in range(rows)
//# for j in range(columns)
    var sum_{{ r }}_{{ j }} = Sum();
//# endfor
//# endfor

//# if staged
    for (var first = 0u; first < loads; first += ROUND) {
        let load = first + local.y;
{{ fetch(unroll_k, true) }}
        workgroupBarrier();
{{ stage() }}
        workgroupBarrier();
{{ multiply(unroll_k) }}
    }
//# else
    var load = local.y;
//# if unroll_k > 1
    for (; load + {{ (unroll_k - 1) * lanes_k }}u < loads; load += {{ a_round }}u) {
{{ fetch(unroll_k, false) }}
{{ multiply(unroll_k) }}
    }
//# endif
    for (; load < loads; load += LANES_K) {
{{ fetch(1, false) }}
{{ multiply(1) }}
    }
//# endif

    // Row by row, the sums of the invocations along K come together.
//# for r in range(rows)
//# set last_row = loop.last
//# for start in range(0, columns, sums)
    {
        var sum = {{ element }}({% for j in range(start, start + sums) %}sum_{{ r }}_{{ j }}{{ "" if loop.last else ", " }}{% endfor %});
{{ lane_sum(element, lanes_k, 1, reduce) }}
        if (local.y == 0u) {
//# for j in range(sums)
            store_one(first_row + {{ r }}u, first_col + {{ start + j }}u, sum{{ "" if sums == 1 else components[j] }});
//# endfor
        }
    }
//# if not (last_row and loop.last)
    workgroupBarrier();
//# endif
//# endfor
//# endfor
}
