{#-
Carrying tiles of K and V for flash_subgroup_matrix.wgsl, in the order that memory has: `fetch` takes vec4s of `x`
into registers, `commit` from there to its tile of `count` keys and `columns` elements. An index made of constants,
quotients and remainders of the invocation's number is one that Tint proves to be in range and does not clamp.
-#}
{% macro steps(count, columns) %}{{ (count * columns // 4 + invocations - 1) // invocations }}{% endmacro %}
{% macro piece(s) %}{{ "invocation + %du" % (s * invocations) if s else "invocation" }}{% endmacro %}
{% macro declare(x, count, columns) %}
//# for s in range(steps(count, columns) | int)
    var fetched_{{ x }}_{{ s }} = vec4<f16>();
//# endfor
{% endmacro %}
{% macro fetch(x, count, columns, kv0, first="") %}
        // Memory -> registers: a tile of {{ x | upper }}. Keys past the end are the last one again; they are masked.
//# for s in range(steps(count, columns) | int)
        {
            let piece = {{ piece(s) }};
            let key = min({{ kv0 }} + piece / {{ columns // 4 }}u, last_key);
            fetched_{{ x }}_{{ s }} = load_{{ x }}({{ x }}_begin + key * sizes.{{ x }}_row, {{ first }}piece % {{ columns // 4 }}u * 4u);
        }
//# endfor
{% endmacro %}
{% macro commit(x, count, columns) %}
        // Registers -> workgroup memory.
//# for s in range(steps(count, columns) | int)
        {{ "if (%s < %du) {" % (piece(s), count * columns // 4) if (s + 1) * invocations > count * columns // 4 else "{" }}
            let piece = {{ piece(s) }};
            tile_of_{{ x }}[piece / {{ columns // 4 }}u * PITCH_{{ x | upper }} + piece % {{ columns // 4 }}u] = fetched_{{ x }}_{{ s }};
        }
//# endfor
{% endmacro %}
