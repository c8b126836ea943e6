{#-
Carrying tiles of Q, K and V from memory to workgroup memory: `fetch` takes them into registers, `commit` from
there to their tiles, turned around where a tile is k-major. Q and K come in blocks of 4×4, V in vec4s; an
invocation carries `k_steps`, `q_steps` and `v_steps` of them. Included by flash.wgsl.

Which block: neighbours go along the rows of the tile, `along_d` of them at a time along an element's neighbours.
More of them together read more of a row's bytes at once; the pad of the tile then keeps their stores apart.
-#}
{% macro quad_of(piece, tile) %}{% if along_d > 1 %}{{ piece }} % {{ along_d }}u + {{ piece }} / ({{ tile }} / 4u * {{ along_d }}u) * {{ along_d }}u{% else %}{{ piece }} / ({{ tile }} / 4u){% endif %}{% endmacro %}
{% macro slot_of(piece, tile) %}{{ piece }}{{ " / %du" % along_d if along_d > 1 }} % ({{ tile }} / 4u){% endmacro %}
{% macro turned(target, x, s, column, kind, factor) %}
//# for c in range(4)
        {{ target }}[quad][{{ c }}u][{{ column }}] = vec4<{{ kind }}>(vec4<{{ "f32" if factor else kind }}>({% for r in range(4) %}{{ "f32" if factor else kind }}({{ x }}_{{ s }}_{{ r }}.{{ components[c] }}){{ ", " if r < 3 }}{% endfor %}){{ factor }});
//# endfor
{% endmacro %}
{% macro fetch_qk(kv0, d0) %}
        // Memory -> registers: 4×4 blocks of K{{ "" if q_resident else " and Q" }}. Keys past the end are the last one again; they are masked.
//# if k_staged
//# for s in range(k_steps)
        {
            let piece = invocation + {{ s }}u * INVOCATIONS;
            let piece_d = {{ d0 }} + ({{ quad_of("piece", "TILE_KV") }}) * 4u;
            let key = {{ kv0 }} + key_of({{ slot_of("piece", "TILE_KV") }});
//# for r in range(4)
            fetched_k_{{ s }}_{{ r }} = load_k(k_begin + min(key + {{ r }}u * THREADS_KV, last_key) * sizes.k_row, piece_d);
//# endfor
        }
//# endfor
//# endif
//# if not q_resident
//# for s in range(q_steps)
        {
            let piece = invocation + {{ s }}u * INVOCATIONS;
            let piece_d = {{ d0 }} + ({{ quad_of("piece", "TILE_Q") }}) * 4u;
            let row = q0 + {{ slot_of("piece", "TILE_Q") }} * 4u;
//# for r in range(4)
            fetched_q_{{ s }}_{{ r }} = load_q(q_row(batch, head, min(row + {{ r }}u, sizes.seq - 1u)), piece_d);
//# endfor
        }
//# endfor
//# endif
{% endmacro %}
{% macro commit_qk() %}
        // Registers -> workgroup memory, turned around.
//# if k_staged
//# for s in range(k_steps)
        {{ "if (invocation + %du * INVOCATIONS < %du) {" % (s, k_pieces) if k_pieces % invocations else "{" }}
            let piece = invocation + {{ s }}u * INVOCATIONS;
            let quad = {{ quad_of("piece", "TILE_KV") }};
            let slot = {{ slot_of("piece", "TILE_KV") }};
{{ turned("tile_of_k", "fetched_k", s, "slot", "Staged", "") }}
        }
//# endfor
//# endif
//# if not q_resident
//# for s in range(q_steps)
        {{ "if (invocation + %du * INVOCATIONS < %du) {" % (s, q_pieces) if q_pieces % invocations else "{" }}
            let piece = invocation + {{ s }}u * INVOCATIONS;
            let quad = {{ quad_of("piece", "TILE_Q") }};
            let slot = {{ slot_of("piece", "TILE_Q") }};
{{ turned("tile_of_q", "fetched_q", s, "slot", "Product", " * factor") }}
        }
//# endfor
//# endif
{% endmacro %}
{% macro fetch_v(key0) %}
//# if v_staged
//# for s in range(v_steps)
        {
            let piece = invocation + {{ s }}u * INVOCATIONS;
            let key = min({{ key0 }} + piece / (TILE_V / 4u), last_key);
            fetched_v_{{ s }} = load_v(v_begin + key * sizes.v_row, v0 + piece % (TILE_V / 4u) * 4u);
        }
//# endfor
//# endif
{% endmacro %}
{% macro commit_v() %}
//# if v_staged
//# for s in range(v_steps)
        {{ "if (invocation + %du * INVOCATIONS < %du) {" % (s, v_pieces) if v_pieces % invocations else "{" }}
            let piece = invocation + {{ s }}u * INVOCATIONS;
            tile_of_v[piece / (TILE_V / 4u) / STEPS_V][piece / (TILE_V / 4u) % STEPS_V][piece % (TILE_V / 4u)] = vec4<Staged>(fetched_v_{{ s }});
        }
//# endfor
//# endif
{% endmacro %}
