{#-
Steps of the products of flash_subgroup_matrix.wgsl, and how Q gets to where they find it. What is multiplied from
the right is loaded once for all the fragments below each other that it meets.
-#}

{#- `count` elements of the subgroup's queries, from element `first` on, to a tile or strip. -#}
{% macro carry_q(to, pitch, first, count) %}
//# set quads = count // 4
    for (var i = lane; i < ROWS * {{ quads }}u; i += LANES) {
        let q = load_q(q_row(batch, head, min(q0 + strip + i / {{ quads }}u, last_row)), i % {{ quads }}u * 4u{{ " + %du" % first if first }});
        {{ to }}[(strip + i / {{ quads }}u) * {{ pitch }} + i % {{ quads }}u] = {{ "vec4<f16>(vec4<f32>(q) * factor)" if halves else "q" }};
    }
{% endmacro %}

{#- S += Q·Kᵀ for k elements, of which the first is 4·`quad`; in K's tile its columns are rows. -#}
{% macro scores_step(d, quad) %}
        {
//# if q_from == "workgroup"
//# for r in range(blocks)
            let left_{{ r }} = subgroupMatrixLoad<Left, row_major>(&tile_of_q, (strip + {{ r * m }}u) * PITCH_Q + {{ quad }}, PITCH_Q);
//# endfor
//# endif
//# for c in range(cols_s)
//# if k_staged
            let right_{{ c }} = subgroupMatrixLoad<Right, col_major>(&tile_of_k, {{ c * n }}u * PITCH_K + {{ quad }}, PITCH_K);
//# else
            let right_{{ c }} = subgroupMatrixLoad<Right, col_major>(&{{ name_of["k"] }}, (k_begin + (kv0 + {{ c * n }}u) * sizes.k_row) / 4u + {{ quad }}, sizes.k_row / 4u);
//# endif
//# for r in range(blocks)
            s_{{ r }}_{{ c }} = subgroupMatrixMultiplyAccumulate({{ "left_%d" % r if q_from == "workgroup" else "q_%d_%d" % (r, d) }}, right_{{ c }}, s_{{ r }}_{{ c }});
//# endfor
//# endfor
        }
{% endmacro %}

{#- O += P·V for k keys from `key` of the tile on. -#}
{% macro values_step(key) %}
        {
//# for r in range(blocks)
            let left_{{ r }} = subgroupMatrixLoad<Left, row_major>(&strip_p, (strip + {{ r * m }}u) * PITCH_P + {{ key }} / 4u, PITCH_P);
//# endfor
//# for c in range(cols_o)
//# if v_staged
            let right_{{ c }} = subgroupMatrixLoad<Right, row_major>(&tile_of_v, {{ key }} * PITCH_V + {{ c * n // 4 }}u, PITCH_V);
//# else
            let right_{{ c }} = subgroupMatrixLoad<Right, row_major>(&{{ name_of["v"] }}, ({{ v0 }}v_begin + (kv0 + {{ key }}) * sizes.v_row) / 4u + {{ c * n // 4 }}u, sizes.v_row / 4u);
//# endif
//# for r in range(blocks)
            o_{{ r }}_{{ c }} = subgroupMatrixMultiplyAccumulate(left_{{ r }}, right_{{ c }}, o_{{ r }}_{{ c }});
//# endfor
//# endfor
        }
{% endmacro %}
