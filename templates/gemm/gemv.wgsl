//# if f16
enable f16;

//# endif
//# if reduce == "subgroup"
enable subgroups;

//# endif
//# set wide = stream
//# set few = "b" if stream == "a" else "a"
//# set wide_size = "sizes.m" if stream == "a" else "sizes.n"
//# set few_size = "sizes.n" if stream == "a" else "sizes.m"
//# set wide_ld = lda if stream == "a" else ldb
//# set few_ld = ldb if stream == "a" else lda
//# set wide_start = a_start if stream == "a" else b_start
//# set few_start = b_start if stream == "a" else a_start
//# set along_k = wide_along == "k"
//# set wide_line = "row" if stream == "a" else "column"
//# set few_line = "column" if stream == "a" else "row"
// GEMM for few rows of A or few columns of B: a matrix-vector product, or a handful of them. Here {{ wide | upper }} is
// the large matrix, and every value of it is used only ROWS times, so memory sets the speed: all invocations
// stream it in vec4s, several loads under way each, and share K out among them until there are enough.
//
//# if along_k
//                   K →
//     {{ "   row" if stream == "a" else "column" }} n    │0│1│2│..│0│1│2│..│   lane l of THREADS_K takes every THREADS_K-th group of 4 k,
//     {{ "   row" if stream == "a" else "column" }} n+1  │0│1│2│..│0│1│2│..│   of COLUMNS {{ wide_line }}s at once
//                Σ over the lanes, then over the SPLITS of K in a second pass
//# else
//               {{ "M" if stream == "a" else "N" }} →
//         ┌──┬──┬──┬──┐   an invocation sums 4 {{ wide_line }}s over every THREADS_K-th group of 4 k;
//     K   │  │  │  │  │   LANES_N of them lie side by side along {{ "M" if stream == "a" else "N" }}, THREADS_K along K
//     ↓   └──┴──┴──┴──┘
//           Σ over K in the workgroup, then over the SPLITS of K in a second pass
//# endif
//
//   stream     which matrix is large and read once: b where C has few rows, a where it has few columns
//   rows       {{ few_line }}s of {{ few | upper }} a workgroup takes, e.g. 1
//   columns    {{ wide_line }}s of {{ wide | upper }} an invocation takes, e.g. 4: always 4 where those are contiguous in memory
//   lanes_n    invocations along them, e.g. 16
//   threads_k  invocations along K, e.g. 16, a power of two
//   vector     elements of {{ wide | upper }} a memory access moves: 4 (where what is contiguous comes in fours) or 1
//   unroll_k   groups of 4 k an invocation loads before it sums, e.g. 2
//   splits     workgroups that share K, each with its own partial sums, e.g. 4
//   staging    {{ few | upper }} is read where it lies (memory), or a round's part of it is laid out in workgroup memory,
//              four k a vec4 (workgroup)
//   reduce     tree: invocations add up through workgroup memory; subgroup: by exchange within subgroups first
{% from "lib/lane_sum.wgsl" import lane_sum %}
{% from "lib/gemm_load.wgsl" import load with context %}
//# set components = [".x", ".y", ".z", ".w"]
//# set sums = [columns, 4] | min
//# set element = "Sum" if sums == 1 else "vec%d<Sum>" % sums
//# set invocations = lanes_n * threads_k
//# set staged_few = staging == "workgroup"
//# set quads_round = unroll_k * threads_k

{{ "" }}
{% include "lib/sizes.wgsl" %}

{% include "lib/gemm_operands.wgsl" %}

{{ load(wide, wide_along, wide_size, wide_ld) }}

// {{ few | upper }}: four neighbours along k of the {{ few_line }} that starts at `start`.
//# if few_vector == 4
fn load_few(start: u32, k: u32) -> vec4<Staged> {
    return vec4<Staged>({{ few }}[(start + k) / 4u]);
}

fn load_few_tail(start: u32, k: u32) -> vec4<Staged> {
    if (k >= sizes.k) { return vec4<Staged>(); }
    return load_few(start, k);
}
//# else
fn one_of_few(start: u32, k: u32) -> Staged {
    return Staged({{ few }}[start + k{{ "" if few_along == "k" else " * " ~ few_ld }}]);
}

fn load_few(start: u32, k: u32) -> vec4<Staged> {
    return vec4<Staged>(one_of_few(start, k), one_of_few(start, k + 1u), one_of_few(start, k + 2u), one_of_few(start, k + 3u));
}

fn load_few_tail(start: u32, k: u32) -> vec4<Staged> {
    var quad = vec4<Staged>();
//# for component in components
    if (k + {{ loop.index0 }}u < sizes.k) { quad{{ component }} = one_of_few(start, k + {{ loop.index0 }}u); }
//# endfor
    return quad;
}
//# endif

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

const ROWS = {{ rows }}u;
const COLUMNS = {{ columns }}u;
const LANES_N = {{ lanes_n }}u;
const THREADS_K = {{ threads_k }}u;
const SPLITS = {{ splits }}u;
const ROUND = {{ quads_round }}u;  // groups of 4 k that a workgroup takes in a round

//# if staged_few
var<workgroup> tile_few: array<array<vec4<Staged>, ROUND>, ROWS>;  // [{{ few_line }}][k / 4]
//# endif

// Partial sums of one {{ few_line }} of {{ few | upper }}, {{ sums }} an invocation.
var<workgroup> partial: array<array<{{ element }}, LANES_N>, THREADS_K>;

//# if not quads
// One element of C, where it exists, from a {{ few_line }} of {{ few | upper }} and a {{ wide_line }} of {{ wide | upper }}.
fn store_one(start: u32, few: u32, wide: u32, sum: Sum) {
    if (few < {{ few_size }} && wide < {{ wide_size }}) { put(start, {{ "wide, few" if stream == "a" else "few, wide" }}, sum); }
}
//# endif
//# if along_k

{% include "lib/add_dot.wgsl" %}
//# endif
{% macro fetch(count, k, suffix) %}
//# for u in range(count)
//# if along_k
//# for j in range(columns)
            w_{{ u }}_{{ j }} = vec4<Sum>(load_{{ wide }}{{ suffix }}(wide_{{ j }}, {{ k }} + {{ 4 * u * threads_k }}u));
//# endfor
//# else
//# for s in range(4)
            w_{{ u }}_{{ s }} = vec4<Sum>(load_{{ wide }}{{ suffix }}(wide_start, {{ k }} + {{ 4 * u * threads_k + s }}u, first_wide));
//# endfor
//# endif
//# endfor
{% endmacro %}
{% macro multiply(count, k, suffix) %}
//# for u in range(count)
//# for r in range(rows)
            {
                let f = vec4<Sum>({{ "tile_few[%d][local.y + %du]" % (r, u * threads_k) if staged_few else "load_few%s(few_%d, %s + %du)" % (suffix, r, k, 4 * u * threads_k) }});
//# if along_k
//# for j in range(columns)
                sum_{{ r }}_{{ j }} = add_dot(sum_{{ r }}_{{ j }}, f, w_{{ u }}_{{ j }});
//# endfor
//# else
//# for c in components
                sum_{{ r }} = fma(vec4<Sum>(f{{ c }}), w_{{ u }}_{{ loop.index0 }}, sum_{{ r }});
//# endfor
//# endif
            }
//# endfor
//# endfor
{% endmacro %}
{% macro under_way(count) %}
//# for u in range(count)
//# for j in range(columns)
            var w_{{ u }}_{{ j }} = vec4<Sum>();
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
    // Which {{ wide_line }}s of {{ wide | upper }}, {{ few_line }}s of {{ few | upper }} and share of K. The whole workgroup leaves together past the last tile.
    let tiles_wide = ({{ wide_size }} + LANES_N * COLUMNS - 1u) / (LANES_N * COLUMNS);
    let tiles_few = ({{ few_size }} + ROWS - 1u) / ROWS;
    let id = linear_workgroup(workgroup, grid);
    if (id >= tiles_wide * tiles_few * SPLITS{{ " * sizes.batch" if batched else "" }}) { return; }
//# if along_k
    let local = vec2<u32>(invocation / THREADS_K, invocation % THREADS_K);  // neighbours along K
//# else
    let local = vec2<u32>(invocation % LANES_N, invocation / LANES_N);  // neighbours along {{ "M" if stream == "a" else "N" }}
//# endif
    let first_wide = (id % tiles_wide * LANES_N + local.x) * COLUMNS;
    let first_few = id / tiles_wide % tiles_few * ROWS;
    let split = id / (tiles_wide * tiles_few) % SPLITS;
//# if batched
    let entry = id / (tiles_wide * tiles_few * SPLITS);  // of the batch
//# endif
    let wide_start = {{ wide_start }};
    let few_start = {{ few_start }};

    // Past the edge the last {{ few_line }} or {{ wide_line }} is read again; its sums are never stored.
//# for r in range(rows)
    let few_{{ r }} = few_start + min(first_few + {{ r }}u, {{ few_size }} - 1u){{ " * " ~ few_ld if few_along == "k" else "" }};
//# endfor
//# if along_k
//# for j in range(columns)
    let wide_{{ j }} = wide_start + min(first_wide + {{ j }}u, {{ wide_size }} - 1u) * {{ wide_ld }};
//# endfor
//# for r in range(rows)
//# for j in range(columns)
    var sum_{{ r }}_{{ j }} = Sum();
//# endfor
//# endfor
//# else
//# for r in range(rows)
    var sum_{{ r }} = vec4<Sum>();
//# endfor
//# endif

    // Rounds of K in which every invocation of every split takes its groups; only the last can reach past the end.
    for (var k0 = split * ROUND * 4u; k0 < sizes.k; k0 += SPLITS * ROUND * 4u) {
        let k = k0 + local.y * 4u;
//# if staged_few
{{ under_way(unroll_k) }}
        if (k0 + ROUND * 4u <= sizes.k) {
{{ fetch(unroll_k, "k", "") }}
        } else {
{{ fetch(unroll_k, "k", "_tail") }}
        }
        workgroupBarrier();
        for (var i = invocation; i < ROWS * ROUND; i += {{ invocations }}u) {
            let line = min(first_few + i / ROUND, {{ few_size }} - 1u);
            tile_few[i / ROUND][i % ROUND] = load_few_tail(few_start + line{{ " * " ~ few_ld if few_along == "k" else "" }}, k0 + i % ROUND * 4u);
        }
        workgroupBarrier();
{{ multiply(unroll_k, "k", "") }}
//# else
        if (k0 + ROUND * 4u <= sizes.k) {
{{ under_way(unroll_k) }}
{{ fetch(unroll_k, "k", "") }}
{{ multiply(unroll_k, "k", "") }}
        } else {
            for (var q = k; q < sizes.k; q += THREADS_K * 4u) {
{{ under_way(1) }}
{{ fetch(1, "q", "_tail") }}
{{ multiply(1, "q", "_tail") }}
            }
        }
//# endif
    }

    // {{ few_line | capitalize }} by {{ few_line }}, the sums of the invocations along K come together.
    let c_begin = c_start(split, {{ "entry" if batched else "0u" }});
//# for r in range(rows)
//# set last_row = loop.last
//# for start in range(0, columns, sums)
    {
//# if along_k
        var sum = {{ element }}({% for j in range(start, start + sums) %}sum_{{ r }}_{{ j }}{{ "" if loop.last else ", " }}{% endfor %});
//# else
        var sum = sum_{{ r }};
//# endif
{{ lane_sum(element, threads_k, 1 if along_k else lanes_n, reduce) }}
//# if quads
        if (local.y == 0u) { store_c(c_begin, first_few + {{ r }}u, first_wide, sum); }
//# else
        if (local.y == 0u) {
//# for j in range(sums)
            store_one(c_begin, first_few + {{ r }}u, first_wide + {{ start + j }}u, sum{{ "" if sums == 1 else components[j] }});
//# endfor
        }
//# endif
    }
//# if not (last_row and loop.last)
    workgroupBarrier();
//# endif
//# endfor
//# endfor
}
