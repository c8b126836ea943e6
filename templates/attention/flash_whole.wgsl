        // P = exp2(S − m). Each invocation sums its own keys; rows are summed up at the end.
//# for c in range(thread_kv)
//# for i in range(quads_q)
        s_{{ c }}_{{ i }} = exp2(s_{{ c }}_{{ i }} - m_{{ i }});
        l_{{ i }} += s_{{ c }}_{{ i }};
        {{ p_of(c) }}[{{ rows(i) }}] = vec4<Product>(s_{{ c }}_{{ i }});
//# endfor
//# endfor
//# if not prefetch
{{ fetch_v("kv0") }}
//# endif
{{ commit_v() }}
//# if k_staged or (not q_resident and d_chunks > 1)
//# if not prefetch
{{ fetch_qk("(kv0 + TILE_KV)", "0u") }}
//# endif
{{ commit_qk() }}
//# endif
        workgroupBarrier();

        // O += P·V.
//# if v_chunks > 1 and v_staged
        for (var r0 = 0u; r0 < TILE_KV; r0 += V_ROWS) {
            let more = r0 + V_ROWS < TILE_KV;
//# if prefetch
            if (more) {
{{ fetch_v("(kv0 + r0 + V_ROWS)") }}
            }
//# endif
//# if steps_v == v_rows
{{ values("r0 / STEPS_V", "0u") }}
//# else
            for (var b = 0u; b < V_ROWS / STEPS_V; b += 1u) {
{{ values("r0 / STEPS_V + b", "b") }}
            }
//# endif
            if (more) {
                workgroupBarrier();
//# if not prefetch
{{ fetch_v("(kv0 + r0 + V_ROWS)") }}
//# endif
{{ commit_v() }}
                workgroupBarrier();
            }
        }
//# elif steps_v == tile_kv
{{ values("0u", "0u") }}
//# else
        for (var b = 0u; b < TILE_KV / STEPS_V; b += 1u) {
{{ values("b", "b") }}
        }
//# endif
