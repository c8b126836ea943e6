{#-
The two products of a step, some of their steps written out: S += Q·Kᵀ and O += P·V. Included by flash.wgsl.
-#}
{% macro rows(i) %}y + {{ i * threads_q }}u{% endmacro %}
{% macro cols(j) %}x + {{ j * threads_kv }}u{% endmacro %}
{% macro row_part(x, i) -%}
{#- What invocation x of a row keeps for the others; where P is sliced, in P's memory. -#}
{% if p_sliced -%}
{{ p_row(x) }}[{{ rows(i) }}]
{%- else -%}
row_parts[{{ x }}{{ "u" if x is number }}][{{ rows(i) }}]
{%- endif %}
{%- endmacro %}
{% macro p_row(row) -%}
{% if row is number -%}
tile_of_p[{{ row // steps_v }}u][{{ row % steps_v }}u]
{%- else -%}
tile_of_p[({{ row }}) / STEPS_V][({{ row }}) % STEPS_V]
{%- endif %}
{%- endmacro %}
{% macro p_of(c) %}{{ p_row("x + %du" % (c * threads_kv)) }}{% endmacro %}
{% macro scores(d4, b) %}
//# if k_staged
//# for u in range(steps_d)
        {
//# for i in range(quads_q)
            let q_{{ i }} = tile_of_q[{{ d4 if q_resident }}{{ b }}{{ u // 4 }}u][{{ u % 4 }}u][{{ rows(i) }}];
//# endfor
//# for j in range(quads_kv)
            let k_{{ j }} = vec4<f32>(tile_of_k[{{ b }}{{ u // 4 }}u][{{ u % 4 }}u][{{ cols(j) }}]);
//# endfor
//# for c in range(thread_kv)
//# for i in range(quads_q)
            s_{{ c }}_{{ i }} = fma(q_{{ i }}, vec4<f32>(k_{{ c // 4 }}.{{ components[c % 4] }}), s_{{ c }}_{{ i }});
//# endfor
//# endfor
        }
//# endfor
//# else
//# for u in range(0, steps_d, 4)
        {
//# for c in range(thread_kv)
            let k_{{ c }} = vec4<f32>(load_k(k_row_{{ c }}, ({{ d4 }}{{ b }}{{ u // 4 }}u) * 4u));
//# endfor
//# for step in range(4)
//# for i in range(quads_q)
            let q_{{ step }}_{{ i }} = tile_of_q[{{ d4 if q_resident }}{{ b }}{{ u // 4 }}u][{{ step }}u][{{ rows(i) }}];
//# endfor
//# for c in range(thread_kv)
//# for i in range(quads_q)
            s_{{ c }}_{{ i }} = fma(q_{{ step }}_{{ i }}, vec4<f32>(k_{{ c }}.{{ components[step] }}), s_{{ c }}_{{ i }});
//# endfor
//# endfor
//# endfor
        }
//# endfor
//# endif
{% endmacro %}
{% macro values(p_block, v_block) %}
//# for u in range(steps_v)
        {
//# for i in range(quads_q)
            let p_{{ i }} = tile_of_p[{{ p_block }}][{{ u }}u][{{ rows(i) }}];
//# endfor
//# for j in range(quads_v)
//# if v_staged
            let v_{{ j }} = vec4<f32>(tile_of_v[{{ v_block }}][{{ u }}u][{{ cols(j) }}]);
//# else
            let v_{{ j }} = vec4<f32>(load_v(v_begin + min(kv0 + {{ v_block }} * STEPS_V + {{ u }}u, last_key) * sizes.v_row, v0 + ({{ cols(j) }}) * 4u));
//# endif
//# endfor
//# for c in range(thread_v)
//# for i in range(quads_q)
            o_{{ c }}_{{ i }} = fma(p_{{ i }}, vec4<f32>(v_{{ c // 4 }}.{{ components[c % 4] }}), o_{{ c }}_{{ i }});
//# endfor
//# endfor
        }
//# endfor
{% endmacro %}
