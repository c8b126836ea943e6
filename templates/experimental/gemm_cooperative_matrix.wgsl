//# if f16
enable f16;
//# endif
enable wgpu_cooperative_matrix;

// An experiment, in the dialect of naga 30, the compiler of wgpu: this is no WGSL elsewhere. It was checked by naga, its
// arithmetic by other means, and it was never run or timed by those who wrote it.
//
// GEMM on cooperative matrices. A workgroup computes a TILE_M×TILE_N tile of C in PARTS parts. A subgroup computes a
// part as matrices of EDGE×EDGE that stay in registers, spread over its lanes. A step multiplies a column of matrices of
// A's tile with a row of B's, and adds the products to the sums: one instruction a pair of matrices. Tiles pass through
// workgroup memory, where what lies outside A and B is zero: a matrix is always loaded whole.
//
//              TILE_N                  parts of a tile, and the matrices of one
//         ┌─────────────┐                 ┌─────────┬─────────┐
//         │  tile of B  │ TILE_K          │ c00 c01 │         │
//         └─────────────┘                 │ c10 c11 │    1    │
//    ┌──┐ ┌─────────────┐                 ├─────────┼─────────┤
//    │A │ │  tile of C  │ TILE_M          │    2    │    3    │
//    └──┘ └─────────────┘                 └─────────┴─────────┘
//
// The lanes of a subgroup are not counted on. INVOCATIONS are PARTS subgroups of 32 lanes; of larger subgroups there are
// fewer, which take the parts in rounds, of smaller ones more, and those without a part do another's again, unstored.
//
//   edge             of the matrices, 8 or 16: one of the adapter's cooperative_matrix_properties, with m = n = k
//   tile_m, tile_n   tile of C a workgroup computes, in elements, e.g. 64 × 64
//   tile_k           depth of the tiles, in elements, e.g. 32
//   parts_m, parts_n how a tile is cut into parts, e.g. 2 × 2
//   invocations      of a workgroup, e.g. 128
//   group_m          tile rows that are walked together, so that B's tiles are reused from cache
//# set rows = tile_m // parts_m // edge
//# set cols = tile_n // parts_n // edge
{{ "" }}
{% include "lib/sizes.wgsl" %}

{% include "lib/gemm_operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

const EDGE = {{ edge }}u;
const TILE_M = {{ tile_m }}u;
const TILE_N = {{ tile_n }}u;
const TILE_K = {{ tile_k }}u;
const PARTS_N = {{ parts_n }}u;
const PARTS = {{ parts_m * parts_n }}u;  // {{ parts_m }} × {{ parts_n }}
const PART_M = {{ rows }}u * EDGE;
const PART_N = {{ cols }}u * EDGE;
const STRIP = EDGE * PART_N;  // elements of a row of matrices
const INVOCATIONS = {{ invocations }}u;
const GROUP_M = {{ group_m }}u;

alias Left = coop_mat{{ edge }}x{{ edge }}<Stored, A>;
alias Right = coop_mat{{ edge }}x{{ edge }}<Stored, B>;
alias Result = coop_mat{{ edge }}x{{ edge }}<Sum, C>;

// Tiles lie as their operands do, A's in lines of {{ "m" if transpose_a else "k" }}, B's in lines of {{ "k" if transpose_b else "n" }}: coopLoadT takes rows, coopLoad columns.
const LINE_A = {{ "TILE_M" if transpose_a else "TILE_K" }};
const LINE_B = {{ "TILE_K" if transpose_b else "TILE_N" }};
var<workgroup> tile_a: array<Stored, TILE_M * TILE_K>;
var<workgroup> tile_b: array<Stored, TILE_K * TILE_N>;
var<workgroup> sums: array<Sum, PARTS * STRIP>;  // a row of matrices of each part, on its way to C

// The i-th of `sums` to C, where it is inside; `row` and `col` are where the strip of part 0 begins.
fn put_sum(start: u32, row: u32, col: u32, i: u32) {
    let part = i / STRIP;
    let in_row = row + part / PARTS_N * PART_M + i % STRIP / PART_N;
    let in_col = col + part % PARTS_N * PART_N + i % PART_N;
    if (in_row < sizes.m && in_col < sizes.n) { put(start, in_row, in_col, sums[i]); }
}

{{ "" }}
{#- Memory -> workgroup memory; `along` is the axis that is contiguous in both, "k" or "outer". -#}
{% macro stage(x, along, first, size, start, ld) %}
            for (var i = invocation; i < {{ "TILE_M" if x == "a" else "TILE_N" }} * TILE_K; i += INVOCATIONS) {
                let line = {{ first }} + i {{ "/" if along == "k" else "%" }} LINE_{{ x | upper }};
                let k = k0 + i {{ "%" if along == "k" else "/" }} LINE_{{ x | upper }};
                var element = Stored();
                if (line < {{ size }} && k < sizes.k) { element = {{ x }}[{{ start }} + {{ "line * %s + k" % ld if along == "k" else "k * %s + line" % ld }}]; }
                tile_{{ x }}[i] = element;
            }
{% endmacro %}

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
) {
    // Which tile of C. naga takes what a function returns to differ between invocations, and then refuses matrices after
    // the return: so the workgroup's number is computed here, from what naga knows to be the same for all.
    let tiles_m = (sizes.m + TILE_M - 1u) / TILE_M;
    let tiles_n = (sizes.n + TILE_N - 1u) / TILE_N;
    let id = workgroup.y * grid.x + workgroup.x;  // the host spreads the count over x and y
    let tile = id % (tiles_m * tiles_n);
    let entry = id / (tiles_m * tiles_n);  // of the batch
    if (entry >= {{ "sizes.batch" if batched else "1u" }}) { return; }  // the whole workgroup leaves together
    let a_start = {{ a_start }};
    let b_start = {{ b_start }};
    let c_begin = c_start(0u, entry);
{% include "lib/tile_order.wgsl" %}

    for (var first = 0u; first < PARTS; first += subgroups) {
        // Which part this subgroup computes in this round.
        let stored = first + subgroup < PARTS;
        let part = (first + subgroup) % PARTS;
        let part_row = part / PARTS_N * PART_M;
        let part_col = part % PARTS_N * PART_N;

        // Sums begin as zeros; WGSL has them in workgroup memory, a matrix is loaded from there.
        for (var i = invocation; i < EDGE * EDGE; i += INVOCATIONS) { sums[i] = Sum(); }
        workgroupBarrier();
//# for i in range(rows)
//# for j in range(cols)
        var c_{{ i }}_{{ j }} = coopLoadT<Result>(&sums[0], EDGE);
//# endfor
//# endfor
        for (var k0 = 0u; k0 < sizes.k; k0 += TILE_K) {
{{ stage("a", "outer" if transpose_a else "k", "tile_row", "sizes.m", "a_start", lda) }}
{{ stage("b", "k" if transpose_b else "outer", "tile_col", "sizes.n", "b_start", ldb) }}
            workgroupBarrier();
            for (var k = 0u; k < TILE_K; k += EDGE) {
//# for i in range(rows)
                let a_{{ i }} = {{ "coopLoad<Left>(&tile_a[k * LINE_A + part_row + %du]" % (i * edge) if transpose_a else "coopLoadT<Left>(&tile_a[(part_row + %du) * LINE_A + k]" % (i * edge) }}, LINE_A);
//# endfor
//# for j in range(cols)
                let b_{{ j }} = {{ "coopLoad<Right>(&tile_b[(part_col + %du) * LINE_B + k]" % (j * edge) if transpose_b else "coopLoadT<Right>(&tile_b[k * LINE_B + part_col + %du]" % (j * edge) }}, LINE_B);
//# for i in range(rows)
                c_{{ i }}_{{ j }} = coopMultiplyAdd(a_{{ i }}, b_{{ j }}, c_{{ i }}_{{ j }});
//# endfor
//# endfor
            }
            workgroupBarrier();
        }

        // A row of matrices of each part at a time: registers -> workgroup memory -> C. How a matrix is spread over its
        // subgroup is the driver's secret.
        let after = min(first + subgroups, PARTS);
//# for i in range(rows)
        if (stored) {
//# for j in range(cols)
            coopStoreT(c_{{ i }}_{{ j }}, &sums[part * STRIP + {{ j * edge }}u], PART_N);
//# endfor
        }
        workgroupBarrier();
        for (var i = first * STRIP + invocation; i < after * STRIP; i += INVOCATIONS) {
            put_sum(c_begin, tile_row + {{ i * edge }}u, tile_col, i);
        }
        workgroupBarrier();
//# endfor
    }
}
