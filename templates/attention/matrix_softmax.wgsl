        // P = exp2(S − m), each lane its part of a row. The lanes of a row agree on m; their sums stay apart.
//# for t in range(turns)
        {
            let at_s = (row + {{ t }}u * BESIDE) * {{ "PITCH_P" if halves else "PITCH_S" }} + part;
            let at_p = {{ "at_s" if halves else "(row + %du * BESIDE) * PITCH_P + part" % t }};
//# for j in range(quads)
            var s_{{ j }} = {{ "vec4<f32>(strip_p[at_s + %du])" % (j * row_lanes) if halves else "strip_s[at_s + %du] * factor" % (j * row_lanes) }};
//# endfor
//# set first_row = "q0 + strip + %du" % (t * at_once)
//# if not elementwise
            if (!all_seen(place.keys, {{ first_row }}, {{ first_row }} + BESIDE - 1u, kv0, TILE_KV)) {
//# else
            {
//# endif
                let query = min(q0 + row + {{ t }}u * BESIDE, last_row);
                let key = kv0 + part * 4u;
//# for j in range(quads)
                s_{{ j }} = vec4<f32>({% for c in "xyzw" %}finish(s_{{ j }}.{{ c }}, place, query, key + {{ 4 * j * row_lanes + loop.index0 }}u){{ ", " if not loop.last }}{% endfor %});
//# endfor
            }
            var most_of = s_0;
//# for j in range(1, quads)
            most_of = max(most_of, s_{{ j }});
//# endfor
            var most = max(max(most_of.x, most_of.y), max(most_of.z, most_of.w));
{{ exchange("most", "max") }}
            let grows = most > m_{{ t }} + SLACK;
            if (grows && m_{{ t }} > NO_KEYS) { atomicStore(&grown, kv0 + 1u); }
            let m_now = select(m_{{ t }}, most, grows);
            shrink_{{ t }} = exp2(m_{{ t }} - m_now);
            m_{{ t }} = m_now;
            var sum = vec4<f32>();
//# for j in range(quads)
            let p_{{ j }} = exp2(s_{{ j }} - m_now);
            sum += p_{{ j }};
            strip_p[at_p{{ " + %du" % (j * row_lanes) if j }}] = vec4<f16>(p_{{ j }});
//# endfor
            l_{{ t }} = l_{{ t }} * shrink_{{ t }} + (sum.x + sum.y + sum.z + sum.w);
        }
//# endfor
