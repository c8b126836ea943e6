{#-
A product of matrices on matrix units, by tiles in workgroup memory; templates/gemm/subgroup_matrix.wgsl explains the
scheme and the parameters, kernels/matrix_tiles.py gives the rest of the context. The text around it declares a and
b, with elements of the types `access_a` and `access_b`, and what stores sums: `store_c`, or `put` where `store_vector`
is 1.

  declare()   constants, types, the workgroup array, and functions
  product()   the part of the main function that follows once `tile_row`, `tile_col`, `k_begin`, `k_end` and
              `c_begin`, the first element of C, are known; it needs `a_start` and `b_start`, the built-ins
              `invocation`, `subgroup_id` and `lane`, and that the whole workgroup gets there
-#}
//# set sub_m = tile_m // subgroups_m
//# set sub_n = tile_n // subgroups_n
//# set rows = sub_m // m
//# set cols = sub_n // n
//# set steps_k = tile_k // k
//# set subgroups = subgroups_m * subgroups_n
//# set invocations = subgroups * subgroup_size
//# set op_a = {"x": "a", "across": tile_m, "along": along_a, "unit": unit_a, "tile": "tile_row", "size": extent_a | default("sizes.m"), "ld": lda, "start": "a_start", "place": "0u", "pitch": "PITCH_A", "abreast": abreast_a, "own": false}
//# set op_b = {"x": "b", "across": tile_n, "along": along_b, "unit": unit_b, "tile": "tile_col", "size": extent_b | default("sizes.n"), "ld": ldb, "start": "b_start", "place": "PLACE_B", "pitch": "PITCH_B", "abreast": abreast_b, "own": own_b | default(false)}
//# set carried = ([op_a] if a_from == "workgroup" else []) + ([op_b] if b_from == "workgroup" else [])
//# set two_places = buffering == "double"
{% from "lib/matrix_stage.wgsl" import access, accesses, loads, places, fetch, commit, inside, row_words, tall, spot, part_spot with context %}
{% from "lib/matrix_store.wgsl" import store_matrices, store_piece with context %}
{% from "lib/tile_walk.wgsl" import tile_walk %}
{#- What must hold for a tile to be read without asking. -#}
{% macro whole(k0) %}
//# set needed = namespace(all=[] if whole_k else ["%s + TILE_K <= sizes.k" % k0])
//# for op in carried
//# if inside(op) | trim
//# set needed.all = needed.all + [inside(op) | trim]
//# endif
//# endfor
{{ needed.all | join(" && ") }}
{% endmacro %}
{% macro access_a() %}{{ access(op_a) if op_a in carried or unit_a > 1 else element }}{% endmacro %}
{% macro access_b() %}{{ access(op_b) if op_b in carried or unit_b > 1 else element }}{% endmacro %}

{% macro declare() %}
// What an invocation moves at once: {{ per }} elements of A or B.
alias Word = {{ word_type }};
{{ "" }}
//# set edge = whole("0u") | trim != ""
//# for op in carried
//# if not op.own
{{ loads(op, edge) }}

//# endif
//# endfor
//# if edge
fn left(size: u32, at: u32) -> u32 {
    return size - min(at, size);
}
//# endif

const TILE_M = {{ tile_m }}u;
const TILE_N = {{ tile_n }}u;
const TILE_K = {{ tile_k }}u;
const SUBGROUP = {{ subgroup_size }}u;  // lanes
const SUBGROUPS_N = {{ subgroups_n }}u;
const SUBGROUPS = {{ subgroups }}u;  // {{ subgroups_m }} × {{ subgroups_n }}
const INVOCATIONS = SUBGROUPS * SUBGROUP;
const SUB_M = {{ sub_m }}u;
const SUB_N = {{ sub_n }}u;
//# if splits > 1
const SPLITS = {{ splits }}u;
//# endif
//# if group_m > 1
const GROUP_M = {{ group_m }}u;
//# endif

alias Left = subgroup_matrix_left<{{ element }}, {{ k }}, {{ m }}>;  // columns come first in these types
alias Right = subgroup_matrix_right<{{ element }}, {{ n }}, {{ k }}>;
alias Result = subgroup_matrix_result<{{ result }}, {{ n }}, {{ m }}>;

// Both tiles, and later sums on their way to C, in words. A's tile has lines of {{ "k" if along_a == "k" else "m" }}, B's of {{ "k" if along_b == "k" else "n" }}, as in memory.
const WORD = {{ per }}u;  // elements of A or B
//# if op_a in carried
const PITCH_A = {{ row_words(op_a) | int * abreast_a }}u{{ " + 1u" if pad else "" }};  // words a row{{ ", of %d lines" % abreast_a if abreast_a > 1 }}
const PLACE_B = {{ tall(op_a) }}u * PITCH_A;
//# else
const PLACE_B = 0u;
//# endif
//# if op_b in carried
const PITCH_B = {{ row_words(op_b) | int * abreast_b }}u{{ " + 1u" if pad else "" }};{{ "  // of %d lines" % abreast_b if abreast_b > 1 }}
//# endif
//# if two_places
const TILES = {{ tiles_words // 2 }}u;  // of one step along K
//# endif
const WORDS = {{ array_words }}u;
var<workgroup> tiles: array<{{ word_type }}, WORDS>;

{{ store_piece() }}
{{ "" }}
{% endmacro %}

{% macro fetch_edge(k0, edge) %}
//# for op in carried
{{ fetch(op, k0, edge) }}
//# endfor
{% endmacro %}
{% macro fetch_tiles(k0) %}
        // Memory -> registers.
//# if whole(k0) | trim
        if ({{ whole(k0) | trim }}) {
{{ fetch_edge(k0, false) }}
        } else {
{{ fetch_edge(k0, true) }}
        }
//# else
{{ fetch_edge(k0, false) }}
//# endif
{% endmacro %}
{#- `% 2u` tells Tint that the place is one of two. -#}
{% macro shift(buffer) %}{{ " + %s %% 2u * TILES" % buffer if two_places else "" }}{% endmacro %}
{% macro commit_tiles(buffer) %}
        // Registers -> workgroup memory.
//# for op in carried
{{ commit(op, shift(buffer)) }}
//# endfor
{% endmacro %}
{% macro left_at(i, step, buffer) %}
//# if a_from == "memory"
&a, {{ accesses(op_a, "a_sub + (%s) * %s + %du" % ("k0 + %du" % (step * k), lda, i * m) if along_a == "outer" else "a_sub + %du * %s + k0 + %du" % (i * m, lda, step * k)) }}, {{ accesses(op_a, lda) }}
//# else
&tiles, a_sub{{ shift(buffer) }} + {{ spot(op_a, step * k, i * m // per) if along_a == "outer" else spot(op_a, i * m, step * k // per) }}, PITCH_A
//# endif
{% endmacro %}
{% macro right_at(j, step, buffer) %}
//# if b_from == "memory"
&b, {{ accesses(op_b, "b_sub + %du * %s + k0 + %du" % (j * n, ldb, step * k) if along_b == "k" else "b_sub + (%s) * %s + %du" % ("k0 + %du" % (step * k), ldb, j * n)) }}, {{ accesses(op_b, ldb) }}
//# else
&tiles, b_sub{{ shift(buffer) }} + {{ spot(op_b, j * n, step * k // per) if along_b == "k" else spot(op_b, step * k, j * n // per) }}, PITCH_B
//# endif
{% endmacro %}
{% macro one_step(step, buffer) %}
        {
//# for i in range(rows)
            let left_{{ i }} = subgroupMatrixLoad<Left, {{ "col_major" if along_a == "outer" else "row_major" }}>({{ left_at(i, step, buffer) | trim }});
//# endfor
//# for j in range(cols)
            let right_{{ j }} = subgroupMatrixLoad<Right, {{ "col_major" if along_b == "k" else "row_major" }}>({{ right_at(j, step, buffer) | trim }});
//# for i in range(rows)
            c_{{ i }}_{{ j }} = subgroupMatrixMultiplyAccumulate(left_{{ i }}, right_{{ j }}, c_{{ i }}_{{ j }});
//# endfor
//# endfor
        }
{% endmacro %}
{% macro compute(buffer) %}
//# for step in range(steps_k)
{{ one_step(step, buffer) }}
//# endfor
{% endmacro %}

{% macro product() %}
    // Which part of the tile this subgroup computes, and where its matrices of A and B begin.
    let subgroup = subgroup_id % SUBGROUPS;
    let part_m = subgroup / SUBGROUPS_N;
    let part_n = subgroup % SUBGROUPS_N;
//# if a_from == "memory"
    let a_sub = a_start + {{ "tile_row + part_m * SUB_M" if along_a == "outer" else "(tile_row + part_m * SUB_M) * " ~ lda }};
//# else
    let a_sub = {{ "part_m * (SUB_M / WORD)" if along_a == "outer" else part_spot(op_a, "part_m", sub_m) | trim }};
//# endif
//# if b_from == "memory"
    let b_sub = b_start + {{ "(tile_col + part_n * SUB_N) * " ~ ldb if along_b == "k" else "tile_col + part_n * SUB_N" }};
//# else
    let b_sub = PLACE_B + {{ part_spot(op_b, "part_n", sub_n) | trim if along_b == "k" else "part_n * (SUB_N / WORD)" }};
//# endif

//# for op in carried
{{ places(op) }}
//# endfor

//# for i in range(rows)
//# for j in range(cols)
    var c_{{ i }}_{{ j }} = Result();
//# endfor
//# endfor

//# if not carried
    for (var k0 = k_begin; k0 < k_end; k0 += TILE_K) {
{{ compute("") }}
    }
//# else
{{ tile_walk(buffering, fetch_tiles, commit_tiles, compute, "k_begin", "k_end", "TILE_K") }}
//# endif

{{ store_matrices("c_begin", "tile_row + part_m * SUB_M", "tile_col + part_n * SUB_N", rows, cols) }}
{% endmacro %}
