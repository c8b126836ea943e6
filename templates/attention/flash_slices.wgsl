//# set slice_columns = v_rows // threads_kv
//# for slice in range(v_chunks)
        // P = exp2(S − m) of V_ROWS keys, of which every invocation has {{ slice_columns }}; it sums its own.
//# for c in range(slice * slice_columns, (slice + 1) * slice_columns)
//# for i in range(quads_q)
        s_{{ c }}_{{ i }} = exp2(s_{{ c }}_{{ i }} - m_{{ i }});
        l_{{ i }} += s_{{ c }}_{{ i }};
//# endfor
//# endfor
//# if not prefetch
{{ fetch_v("(kv0 + %du)" % (slice * v_rows)) }}
//# if slice == 0 and (k_staged or in_pieces)
{{ fetch_qk("(kv0 + TILE_KV)", "0u") }}
//# endif
//# endif
        workgroupBarrier();
//# for c in range(slice * slice_columns, (slice + 1) * slice_columns)
//# for i in range(quads_q)
        {{ p_of(c - slice * slice_columns) }}[{{ rows(i) }}] = vec4<Product>(s_{{ c }}_{{ i }});
//# endfor
//# endfor
{{ commit_v() }}
//# if slice == 0 and (k_staged or in_pieces)
{{ commit_qk() }}
//# endif
        workgroupBarrier();
//# if prefetch and slice + 1 < v_chunks
{{ fetch_v("(kv0 + %du)" % ((slice + 1) * v_rows)) }}
//# endif

        // O += P·V of these keys.
//# if steps_v == v_rows
{{ values("0u", "0u") }}
//# else
        for (var b = 0u; b < V_ROWS / STEPS_V; b += 1u) {
{{ values("b", "b") }}
        }
//# endif

//# endfor
