{#-
The two products of a step, some of their steps written out: S += Q·Kᵀ and O += P·V; and where invocations find
their rows and columns. Included by flash.wgsl.
-#}
{% macro rows(i) %}y + {{ i * threads_q }}u{% endmacro %}
{% macro cols(j) %}x + {{ j * threads_kv }}u{% endmacro %}
{% macro p_row(row) -%}
{#- A key's row of P's tile. -#}
{% if row is number -%}
tile_of_p[{{ row // steps_v }}u][{{ row % steps_v }}u]
{%- else -%}
tile_of_p[({{ row }}) / STEPS_V][({{ row }}) % STEPS_V]
{%- endif %}
{%- endmacro %}
{% macro p_of(c) %}{{ p_row("x + %du" % (c * threads_kv)) }}{% endmacro %}
{% macro row_part(x, i) -%}
{#- What invocation x of a row keeps for the others; where P is sliced, in P's memory. -#}
{% if parts_in_p -%}
{{ p_row(x) }}[{{ rows(i) }}]
{%- else -%}
row_parts[{{ x }}{{ "u" if x is number }}][{{ rows(i) }}]
{%- endif %}
{%- endmacro %}
{% macro added(sums, a, b, width, u) %}
{#- Products of a step: added to sums in f32, or within a chain to sums in f16, and at its end those to the former. -#}
//# for c in range(width)
//# for i in range(quads_q)
//# set b_c = "%s_%d_%d.%s" % (b, u, c // 4, components[c % 4])
//# if not chain
            {{ sums }}_{{ c }}_{{ i }} = fma({{ a }}_{{ u }}_{{ i }}, vec4<f32>({{ b_c }}), {{ sums }}_{{ c }}_{{ i }});
//# elif u % chain == 0
            var h_{{ c }}_{{ i }} = {{ a }}_{{ u }}_{{ i }} * {{ b_c }};
//# else
            h_{{ c }}_{{ i }} = fma({{ a }}_{{ u }}_{{ i }}, vec4<f16>({{ b_c }}), h_{{ c }}_{{ i }});
//# endif
//# if chain and u % chain == chain - 1
            {{ sums }}_{{ c }}_{{ i }} += vec4<f32>(h_{{ c }}_{{ i }});
//# endif
//# endfor
//# endfor
{% endmacro %}
{% macro scores(d4, b) %}
//# set links = chain or 1
//# if k_staged
//# for first in range(0, steps_d, links)
        {
//# for u in range(first, first + links)
//# for i in range(quads_q)
            let q_{{ u }}_{{ i }} = tile_of_q[{{ d4 if q_resident }}{{ b }}{{ u // 4 }}u][{{ u % 4 }}u][{{ rows(i) }}];
//# endfor
//# for j in range(quads_kv)
            let k_{{ u }}_{{ j }} = vec4<Product>(tile_of_k[{{ b }}{{ u // 4 }}u][{{ u % 4 }}u][{{ cols(j) }}]);
//# endfor
{{ added("s", "q", "k", thread_kv, u) }}
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
//# set links = chain or 1
//# for first in range(0, steps_v, links)
        {
//# for u in range(first, first + links)
//# for i in range(quads_q)
            let p_{{ u }}_{{ i }} = tile_of_p[{{ p_block }}][{{ u }}u][{{ rows(i) }}];
//# endfor
//# for j in range(quads_v)
//# if v_staged
            let v_{{ u }}_{{ j }} = vec4<Product>(tile_of_v[{{ v_block }}][{{ u }}u][{{ cols(j) }}]);
//# else
            let v_{{ u }}_{{ j }} = vec4<Product>(load_v(v_begin + min(kv0 + {{ v_block }} * STEPS_V + {{ u }}u, last_key) * sizes.v_row, v0 + ({{ cols(j) }}) * 4u));
//# endif
//# endfor
{{ added("o", "p", "v", thread_v, u) }}
//# endfor
        }
//# endfor
{% endmacro %}
