{#-
The two products of a step, some of their steps written out: S += Q·Kᵀ and O += P·V. Included by flash.wgsl.
-#}
{% macro rows(i) %}y + {{ i * threads_q }}u{% endmacro %}
{% macro cols(j) %}x + {{ j * threads_kv }}u{% endmacro %}
{% macro scores(d0, u0, count) %}
//# if k_staged
//# for u in range(count)
        {
//# for i in range(quads_q)
            let q_{{ i }} = tile_of_q[{{ d0 if q_resident }}{{ u0 }}{{ u }}u][{{ rows(i) }}];
//# endfor
//# for j in range(quads_kv)
            let k_{{ j }} = vec4<f32>(tile_of_k[{{ u0 }}{{ u }}u][{{ cols(j) }}]);
//# endfor
//# for c in range(thread_kv)
//# for i in range(quads_q)
            s_{{ c }}_{{ i }} = fma(q_{{ i }}, vec4<f32>(k_{{ c // 4 }}.{{ components[c % 4] }}), s_{{ c }}_{{ i }});
//# endfor
//# endfor
        }
//# endfor
//# else
//# for u in range(0, count, 4)
        {
//# for c in range(thread_kv)
            let k_{{ c }} = vec4<f32>(load_k(k_row_{{ c }}, {{ d0 }}{{ u0 }}{{ u }}u));
//# endfor
//# for step in range(4)
//# for i in range(quads_q)
            let q_{{ step }}_{{ i }} = tile_of_q[{{ d0 if q_resident }}{{ u0 }}{{ u + step }}u][{{ rows(i) }}];
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
{% macro values(r0, u0, count) %}
//# for u in range(count)
        {
//# for i in range(quads_q)
            let p_{{ i }} = tile_of_p[{{ r0 }}{{ u0 }}{{ u }}u][{{ rows(i) }}];
//# endfor
//# for j in range(quads_v)
//# if v_staged
            let v_{{ j }} = vec4<f32>(tile_of_v[{{ u0 }}{{ u }}u][{{ cols(j) }}]);
//# else
            let v_{{ j }} = vec4<f32>(load_v(v_begin + min(kv0 + {{ r0 }}{{ u0 }}{{ u }}u, last_key) * sizes.v_row, v0 + ({{ cols(j) }}) * 4u));
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
