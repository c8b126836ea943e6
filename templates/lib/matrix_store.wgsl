{#-
Sums from matrix units to memory, by way of the workgroup array `tiles`, which nobody needs for tiles any more: how
a matrix is spread over its subgroup is the driver's secret, so it is stored there and read back as memory takes it:
four elements at a time for `store_c`, or, where rows of C are no whole vec4s and `store_vector` is 1, single ones for
`put`. Neighbours store neighbours, up to eight pieces each in a row: a loop would wait for one before it reads the next
(1023³ on an NVIDIA H200: 23.5 instead of 22.6 µs).

  start, row, col   of the first element of the subgroup's sums: WGSL expressions
  rows, cols        matrices along M and N: variables c_0_0, c_0_1 …

It needs the variables `subgroup` and `lane`, and of the config m, n, word, sum_bytes, `together`, the matrices of
a row that pass at a time, and `store_pitch`, the words from a row of them to the next.
-#}
{% macro store_matrices(start, row, col, rows, cols) %}
//# set per_sum = word // sum_bytes
//# set pieces = m * together * n // store_vector
//# set at_once = namespace(count=1)
//# for count in range(2, 9) if pieces % (count * subgroup_size) == 0
//# set at_once.count = count
//# endfor
//# set loops = pieces != at_once.count * subgroup_size
    // A row of matrices at a time, {{ together }} of them: registers -> this subgroup's words -> memory.
    let sums_at = subgroup * {{ m * store_pitch }}u;
    let own_row = {{ row }};
    let own_col = {{ col }};
//# for r in range(rows)
//# for first in range(0, cols, together)
//# for j in range(together)
    subgroupMatrixStore<row_major>(&tiles, sums_at + {{ j * n // per_sum }}u, c_{{ r }}_{{ first + j }}, {{ store_pitch }}u);
//# endfor
    workgroupBarrier();
//# if loops
    for (var first = lane; first < {{ pieces }}u; first += {{ at_once.count }}u * SUBGROUP) {
//# endif
//# for i in range(at_once.count)
        store_piece({{ start }}, sums_at, own_row + {{ r * m }}u, own_col + {{ first * n }}u, {{ "first" if loops else "lane" }} + {{ i }}u * SUBGROUP);
//# endfor
//# if loops
    }
//# endif
    workgroupBarrier();
//# endfor
//# endfor
{% endmacro %}

{#- `store_vector` elements of a row of matrices -> C. -#}
{% macro store_piece() %}
//# set per_sum = word // sum_bytes
//# set width = together * n // store_vector
fn store_piece(start: u32, sums_at: u32, first_row: u32, first_col: u32, piece: u32) {
    let row = piece / {{ width }}u;
    let col = piece % {{ width }}u{{ " * 4u" if store_vector == 4 }};
    let at = sums_at + row * {{ store_pitch }}u + col / {{ per_sum }}u;
//# if store_vector == 1
    let word = tiles[at][col % {{ per_sum }}u{{ " / 2u" if sum_bytes == 2 }}];
    let sum = {{ "bitcast<vec2<Sum>>(word)[col % 2u]" if sum_bytes == 2 else "bitcast<Sum>(word)" }};
    if (first_row + row < sizes.m && first_col + col < sizes.n) { put(start, first_row + row, first_col + col, sum); }
//# else
//# if per_sum == 4
    let sum = bitcast<vec4<Sum>>(tiles[at]);
//# elif per_sum == 2
    let sum = bitcast<vec4<Sum>>(vec4<u32>(tiles[at], tiles[at + 1u]));
//# else
    let pair = tiles[at];
    let sum = bitcast<vec4<Sum>>(select(pair.xy, pair.zw, col % 8u == 4u));
//# endif
    store_c(start, first_row + row, first_col + col, sum);
//# endif
}
{% endmacro %}
