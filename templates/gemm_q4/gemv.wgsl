//# if f16
enable f16;

//# endif
//# if reduce == "subgroup"
enable subgroups;

//# endif
//# if products == "integer"
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
//   prefetch  whether a round's loads are issued before the arithmetic of the round before it
//   staging   memory: A is read where it lies, 32 · WORDS bytes from lane to lane;
//             workgroup: it is laid out in workgroup memory so that lanes read neighbours
//   rounds    rounds whose part of A is laid out at a time, e.g. 4; there is no barrier between them
//   products  float: codes become floats, as operands.wgsl says; integer: they stay what they are, and A becomes
//             whole numbers on its way to workgroup memory, as digits.wgsl says
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
//# set a_part = a_round * rounds
//# set integers = products == "integer"
//# set pairs = [words // 2 // parts, 1] | max

{% include "lib/sizes.wgsl" %}

{% include "gemm_q4/operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

//# if integers
{% include "gemm_q4/digits.wgsl" %}

//# endif
{% include "lib/grid.wgsl" %}

const ROWS = {{ rows }}u;
const LANES_N = {{ lanes_n }}u;
const LANES_K = {{ lanes_k }}u;
const COLUMNS = {{ columns }}u;
const STEP = {{ step }}u;  // k of a load
//# if staged
const ROUND = {{ a_round }}u;  // loads of a column in a round
const PART = {{ a_part }}u;  // and in the part of A that is laid out at a time

//# if integers
// A's part as digits and their unit, [row][digit of two words' k][load] and [row][k that share a unit][load].
var<workgroup> tile_a: array<array<array<vec4<u32>, PART>, {{ 3 * words // 2 }}u>, ROWS>;
var<workgroup> units: array<array<array<Sum, PART>, {{ parts }}u>, ROWS>;
//# if pairs > 1
var<workgroup> peaks: array<array<Sum, {{ a_part * words // 2 }}u>, ROWS>;
//# endif
//# else
const QUADS = {{ quads_a }}u;  // vec4s of A that go with a load

// A's part, [row][vec4 of a load][load]; a row is one longer, so that storing goes to different banks.
var<workgroup> tile_a: array<array<array<vec4<Sum>, PART + 1u>, QUADS>, ROWS>;
//# endif
//# endif

// Sums of one row, those of {{ sums }} column(s) an invocation.
var<workgroup> partial: array<array<{{ element }}, LANES_N>, LANES_K>;

// C[row][col] where it exists.
fn store_one(row: u32, col: u32, sum: Sum) {
    if (row < sizes.m && col < sizes.n) { put(0u, row, col, sum); }
}

{% include "lib/add_dot.wgsl" %}
{% macro component(index) %}{{ "" if words == 1 else components[index] }}{% endmacro %}
{% macro place(u, last) %}{{ "min(load + %du, loads - 1u)" % (u * lanes_k) if last else "load + %du" % (u * lanes_k) }}{% endmacro %}
{% macro scale(at, j, p) %}Sum(scales[scales_start_{{ j }} + {{ "%s / %du" % (at, group // step) if parts == 1 else "%s * %du + %du" % (at, parts, p) }}]){% endmacro %}
{% macro fetch(count, last, declare="let", name="") %}
        // Loads first: {{ count }} for each column, and the scales they need.
//# for u in range(count)
        {{ declare }} {{ name }}at_{{ u }} = {{ place(u, last) }};
//# for j in range(columns)
        {{ declare }} {{ name }}words_{{ u }}_{{ j }} = weights[weights_start_{{ j }} + {{ name }}at_{{ u }}];
//# endfor
//# endfor
//# for u in range(count)
//# for j in range(columns)
//# for p in range(parts)
        {{ declare }} {{ name }}scale_{{ u }}_{{ j }}_{{ p }} = {{ scale("%sat_%d" % (name, u), j, p) }};
//# endfor
//# endfor
//# endfor
{% endmacro %}
{% macro take(count) %}
        // What was loaded ahead is at hand.
//# for u in range(count)
        let at_{{ u }} = next_at_{{ u }};
//# for j in range(columns)
        let words_{{ u }}_{{ j }} = next_words_{{ u }}_{{ j }};
//# for p in range(parts)
        let scale_{{ u }}_{{ j }}_{{ p }} = next_scale_{{ u }}_{{ j }}_{{ p }};
//# endfor
//# endfor
//# endfor
{% endmacro %}
{% macro multiply_numbers(count) %}
//# for u in range(count)
//# for p in range(parts)
        {
            // {{ 4 * quads }} k that share a scale.
//# for r in range(rows)
//# for j in range(columns)
            var q_{{ r }}_{{ j }} = Sum();
//# endfor
//# endfor
//# for quad in range(p * quads, (p + 1) * quads)
            {
//# for j in range(columns)
                let w_{{ j }} = four_weights(words_{{ u }}_{{ j }}{{ component(quad // 2) }}{{ " >> 16u" if quad % 2 }});
//# endfor
//# for r in range(rows)
                let a_{{ r }} = {{ "tile_a[%d][%d][place + %du]" % (r, quad, u * lanes_k) if staged else "vec4<Sum>(a[a_start_%d + at_%d * %du + %du])" % (r, u, quads_a, quad) }};
//# for j in range(columns)
                q_{{ r }}_{{ j }} = add_dot(q_{{ r }}_{{ j }}, a_{{ r }}, w_{{ j }});
//# endfor
//# endfor
            }
//# endfor
//# for r in range(rows)
//# for j in range(columns)
            sum_{{ r }}_{{ j }} = fma(scale_{{ u }}_{{ j }}_{{ p }}, q_{{ r }}_{{ j }}, sum_{{ r }}_{{ j }});
//# endfor
//# endfor
        }
//# endfor
//# endfor
{% endmacro %}
{% macro multiply_integers(count) %}
//# for u in range(count)
//# for p in range(parts)
        {
            // {{ 16 * pairs }} k that share a unit and a scale.
//# for r in range(rows)
//# for j in range(columns)
//# for digit in range(3)
            var d_{{ digit }}_{{ r }}_{{ j }} = MAGIC;
//# endfor
//# endfor
//# endfor
//# for pair in range(p * pairs, (p + 1) * pairs)
            {
//# for j in range(columns)
                let w_{{ j }} = signed_codes(words_{{ u }}_{{ j }}{{ ".zw" if pair % 2 else ".xy" if words == 4 else "" }});
//# endfor
//# for r in range(rows)
//# for digit in range(3)
                let a_{{ digit }}_{{ r }} = tile_a[{{ r }}][{{ 3 * pair + digit }}][place + {{ u * lanes_k }}u];
//# for j in range(columns)
                d_{{ digit }}_{{ r }}_{{ j }} = add_digits(d_{{ digit }}_{{ r }}_{{ j }}, a_{{ digit }}_{{ r }}, w_{{ j }});
//# endfor
//# endfor
//# endfor
            }
//# endfor
//# for r in range(rows)
            let unit_{{ r }} = units[{{ r }}][{{ p }}][place + {{ u * lanes_k }}u];
//# for j in range(columns)
            sum_{{ r }}_{{ j }} = fma(unit_{{ r }} * scale_{{ u }}_{{ j }}_{{ p }}, number(d_0_{{ r }}_{{ j }}, d_1_{{ r }}_{{ j }}, d_2_{{ r }}_{{ j }}), sum_{{ r }}_{{ j }});
//# endfor
//# endfor
        }
//# endfor
//# endfor
{% endmacro %}
{% macro multiply(count) %}{{ multiply_integers(count) if integers else multiply_numbers(count) }}{% endmacro %}
{% macro stage_numbers() %}
        // A's part, side by side by places in a load; zeros past the end.
//# set vec4s = a_part * quads_a
//# for r in range(rows)
//# for s in range((vec4s + invocations - 1) // invocations)
        {
            let i = invocation + {{ s * invocations }}u;
//# if (s + 1) * invocations > vec4s
            if (i < {{ vec4s }}u) {
//# endif
            tile_a[{{ r }}][i % QUADS][i / QUADS] = select(vec4<Sum>(), vec4<Sum>(a[a_start_{{ r }} + min(part * QUADS + i, sizes.k / 4u - 1u)]), part * QUADS + i < sizes.k / 4u);
//# if (s + 1) * invocations > vec4s
            }
//# endif
        }
//# endfor
//# endfor
{% endmacro %}
{% macro stage_integers() %}
        // A's part as digits, 16 k at a time; zeros past the end.
//# set tasks = a_part * words // 2
//# set turns = (tasks + invocations - 1) // invocations
//# for r in range(rows)
//# for s in range(turns)
//# set x = "%d_%d" % (r, s)
        let i_{{ x }} = invocation + {{ s * invocations }}u;
        let from_{{ x }} = a_start_{{ r }} + min(4u * (part * {{ words // 2 }}u + i_{{ x }}), sizes.k / 4u - 4u);
        let there_{{ x }} = part * {{ words // 2 }}u + i_{{ x }} < sizes.k / 16u;
//# for q in range(4)
        let a_{{ x }}_{{ q }} = select(vec4<Sum>(), vec4<Sum>(a[from_{{ x }} + {{ q }}u]), there_{{ x }});
//# endfor
        let peak_{{ x }} = peak(a_{{ x }}_0, a_{{ x }}_1, a_{{ x }}_2, a_{{ x }}_3);
//# if pairs > 1
        if (i_{{ x }} < {{ tasks }}u) { peaks[{{ r }}][i_{{ x }}] = peak_{{ x }}; }
//# endif
//# endfor
//# endfor
//# if pairs > 1
        workgroupBarrier();
//# endif
//# for r in range(rows)
//# for s in range(turns)
//# set x = "%d_%d" % (r, s)
        if (i_{{ x }} < {{ tasks }}u) {
            let exponent = exponent_of({{ "max(peak_%s, peaks[%d][i_%s ^ 1u])" % (x, r, x) if pairs > 1 else "peak_%s" % x }});
            let digits = digits_of(a_{{ x }}_0, a_{{ x }}_1, a_{{ x }}_2, a_{{ x }}_3, exponent);
            let at = i_{{ x }} / {{ words // 2 }}u;
            let pair = i_{{ x }} % {{ words // 2 }}u;
//# for digit in range(3)
            tile_a[{{ r }}][3u * pair + {{ digit }}u][at] = digits[{{ digit }}];
//# endfor
            units[{{ r }}][pair / {{ pairs }}u][at] = unit_of(exponent);
        }
//# endfor
//# endfor
{% endmacro %}
{% macro stage() %}{{ stage_integers() if integers else stage_numbers() }}{% endmacro %}

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

//# if prefetch
    var load = local.y;
{{ fetch(unroll_k, true, "var", "next_") }}
//# endif
//# if staged
    for (var part = 0u; part < loads; part += PART) {
//# if rounds == 1 and not prefetch
        let load = part + local.y;
{{ fetch(unroll_k, true) }}
//# endif
        workgroupBarrier();
{{ stage() }}
        workgroupBarrier();
//# if rounds == 1 and not prefetch
        let place = local.y;
{{ multiply(unroll_k) }}
//# else
        for (var first = 0u; first < min(PART, loads - part); first += ROUND) {
            let place = first + local.y;
//# if prefetch
{{ take(unroll_k) }}
        load += ROUND;
{{ fetch(unroll_k, true, "", "next_") }}
//# else
            let load = part + place;
{{ fetch(unroll_k, true) }}
//# endif
{{ multiply(unroll_k) }}
        }
//# endif
    }
//# elif prefetch
    for (; load + {{ (unroll_k - 1) * lanes_k }}u < loads;) {
{{ take(unroll_k) }}
        load += {{ a_round }}u;
{{ fetch(unroll_k, true, "", "next_") }}
{{ multiply(unroll_k) }}
    }
//# if unroll_k > 1
    for (; load < loads; load += LANES_K) {
{{ fetch(1, false) }}
{{ multiply(1) }}
    }
//# endif
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
