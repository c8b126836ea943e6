{#-
Carrying tiles of K and V for flash_subgroup_matrix.wgsl, in the order that memory has: `fetch` takes vec4s of `x`
into registers, `commit` from there to its tile of `count` keys and `columns` elements. An index made of constants,
quotients and remainders of the invocation's number is one that Tint proves to be in range and does not clamp.
-#}
{% macro steps(count, columns) %}{{ (count * columns // 4 + invocations - 1) // invocations }}{% endmacro %}

{#- Row and vec4 of the s-th piece that an invocation carries; where a round of them is whole rows, all lie below
each other. -#}
{% macro row_of(s, columns) %}
//# set quads = columns // 4
{{ "invocation / %du" % quads if s == 0 else "invocation / %du + %du" % (quads, s * invocations // quads) if invocations % quads == 0 else "(invocation + %du) / %du" % (s * invocations, quads) }}
{% endmacro %}
{% macro quad_of(s, columns) %}
//# set quads = columns // 4
{{ "invocation %% %du" % quads if s == 0 or invocations % quads == 0 else "(invocation + %du) %% %du" % (s * invocations, quads) }}
{% endmacro %}

{% macro declare(x, count, columns) %}
//# for s in range(steps(count, columns) | int)
    var fetched_{{ x }}_{{ s }} = vec4<f16>();
//# endfor
{% endmacro %}
{% macro fetch(x, count, columns, kv0, first="") %}
        // Memory -> registers: a tile of {{ x | upper }}. Keys past the end are the last one again; they are masked.
//# for s in range(steps(count, columns) | int)
        fetched_{{ x }}_{{ s }} = load_{{ x }}({{ x }}_begin + min({{ kv0 }} + {{ row_of(s, columns) | trim }}, last_key) * sizes.{{ x }}_row, {{ first }}{{ quad_of(s, columns) | trim }} * 4u);
//# endfor
{% endmacro %}
{% macro commit(x, count, columns) %}
        // Registers -> workgroup memory.
//# for s in range(steps(count, columns) | int)
//# set some = (s + 1) * invocations > count * columns // 4
        {{ "if (invocation < %du) {" % (count * columns // 4 - s * invocations) if some }}
        tile_of_{{ x }}[({{ row_of(s, columns) | trim }}) * PITCH_{{ x | upper }} + {{ quad_of(s, columns) | trim }}] = fetched_{{ x }}_{{ s }};
        {{ "}" if some }}
//# endfor
{% endmacro %}
