{#-
Carrying tiles of an operand from memory to workgroup memory. An operand is described by

  x         its name, "a" or "b"
  across    extent of its tile across k: TILE_M or TILE_N
  depth     its extent along k: TILE_K
  along     the axis that is contiguous in memory: "k" or "outer"
  k_major   its tile is [k][outer / 4]; else [outer][k / 4]
  tile      first line of the tile, as a WGSL expression
  size, ld, start   lines, elements a row, first element: WGSL expressions
  swizzle   bool: its columns are swizzled, see below

An invocation carries `steps` pieces. Where memory and tile are contiguous along the same axis a piece is
one vec4; else it is a block of 4×4, turned around on its way through registers. Eight neighbours then store
into the same banks four, or two, at a time: their vec4s lie in rows 4·k apart, and rows are a multiple of
all banks long. With `swizzle`, two neighbours carry adjacent blocks along k (32 bytes of a row in memory),
and in every other four rows of the tile columns differ in bit 2 (`column`), so that the eight meet in
different banks. (The remedy is that of CUTLASS's crosswise layouts.)
Where slices of a workgroup share a tile, each slice's SLICE_K steps of k lie in a place of their own.
-#}
{% macro lines(op) %}{{ 1 if (op.along == "outer") == op.k_major else 4 }}{% endmacro %}
{% macro pieces(op) %}{{ op.across * op.depth // (4 * lines(op) | int) }}{% endmacro %}
{% macro steps(op) %}{{ [pieces(op) | int // invocations, 1] | max }}{% endmacro %}

{% macro places(op) %}
    // Which pieces of {{ op.x | upper }}'s tile this invocation carries{{ ". Lines past the edge read the last one; they are never stored" if op.along == "k" else "" }}.
//# set l = lines(op) | int
//# for s in range(steps(op) | int)
//# if op.swizzle
    let {{ op.x }}_piece_{{ s }} = invocation + {{ s * invocations }}u;
    let {{ op.x }}_k_{{ s }} = ({{ op.x }}_piece_{{ s }} % 2u + {{ op.x }}_piece_{{ s }} / 8u % (TILE_K / 8u) * 2u) * 4u;
    let {{ op.x }}_i_{{ s }} = ({{ op.x }}_piece_{{ s }} / 2u % 4u + {{ op.x }}_piece_{{ s }} / TILE_K * 4u) * 4u;
//# elif op.along == "k"
    let {{ op.x }}_k_{{ s }} = invocation % (TILE_K / 4u) * 4u;
    let {{ op.x }}_i_{{ s }} = (invocation + {{ s * invocations }}u) / (TILE_K / 4u){{ " * 4u" if l == 4 else "" }};
//# endif
//# if op.along == "k"
//# for r in range(l)
    let {{ op.x }}_line_{{ s }}_{{ r }} = {{ op.start }} + min({{ op.tile }} + {{ op.x }}_i_{{ s }} + {{ r }}u, {{ op.size }} - 1u) * {{ op.ld }} + {{ op.x }}_k_{{ s }};
//# endfor
//# else
    let {{ op.x }}_k_{{ s }} = (invocation + {{ s * invocations }}u) / {{ op.across // 4 }}u{{ " * 4u" if l == 4 else "" }};
    let {{ op.x }}_i_{{ s }} = (invocation + {{ s * invocations }}u) % {{ op.across // 4 }}u * 4u;
//# for r in range(l)
    let {{ op.x }}_row_{{ s }}_{{ r }} = {{ op.start }} + ({{ op.x }}_k_{{ s }} + {{ r }}u) * {{ op.ld }};
//# endfor
//# endif
//# endfor
//# for s in range(steps(op) | int)
//# for r in range(l)
    var next_{{ op.x }}_{{ s }}_{{ r }} = vec4<Staged>();
//# endfor
//# endfor
{% endmacro %}

{% macro some(op) %}
//# if pieces(op) | int < invocations
        if (invocation < {{ pieces(op) }}u) {
{{ caller() }}
        }
//# else
{{ caller() }}
//# endif
{% endmacro %}

{% macro fetch(op, k0, tail) %}
{% call some(op) %}
//# for s in range(steps(op) | int)
//# for r in range(lines(op) | int)
//# if op.along == "k"
            next_{{ op.x }}_{{ s }}_{{ r }} = load_{{ op.x }}{{ "_tail" if tail }}({{ op.x }}_line_{{ s }}_{{ r }} + {{ k0 }}{{ ", %s + %s_k_%d" % (k0, op.x, s) if tail }});
//# else
            next_{{ op.x }}_{{ s }}_{{ r }} = load_{{ op.x }}{{ "_tail" if tail }}({{ op.x }}_row_{{ s }}_{{ r }} + {{ k0 }} * {{ op.ld }}, {{ op.tile }} + {{ op.x }}_i_{{ s }}{{ ", %s + %s_k_%d + %du" % (k0, op.x, s, r) if tail }});
//# endif
//# endfor
//# endfor
{% endcall %}
{% endmacro %}

{% macro commit(op, buffer) %}
{% call some(op) %}
//# for s in range(steps(op) | int)
//# if lines(op) | int == 1
            tile_{{ op.x }}[{{ slot_of(op, s, buffer) }}]{{ place(op, s, 0) }} = next_{{ op.x }}_{{ s }}_0;
//# else
//# for c in ["x", "y", "z", "w"]
            tile_{{ op.x }}[{{ slot_of(op, s, buffer) }}]{{ place(op, s, loop.index0) }} = vec4<Staged>(next_{{ op.x }}_{{ s }}_0.{{ c }}, next_{{ op.x }}_{{ s }}_1.{{ c }}, next_{{ op.x }}_{{ s }}_2.{{ c }}, next_{{ op.x }}_{{ s }}_3.{{ c }});
//# endfor
//# endif
//# endfor
{% endcall %}
{% endmacro %}
{#- The vec4 of a row that holds column `quad`; the row is the k-th of `count` written out. -#}
{% macro column(op, quad, k, count) %}
//# if not op.swizzle
{{ quad }}
//# elif count % 8 == 0
{{ "(%s) ^ 4u" % quad if k // 4 % 2 == 1 else quad }}
//# else
({{ quad }}) ^ (k & 4u)
//# endif
{% endmacro %}
{% macro slot_of(op, s, buffer) %}{{ "place(%s, %s_k_%d / SLICE_K)" % (buffer, op.x, s) if slices > 1 else buffer }}{% endmacro %}
{% macro step_of(op, s) %}{{ "%s_k_%d%s" % (op.x, s, " % SLICE_K" if slices > 1 else "") }}{% endmacro %}
{% macro place(op, s, c) %}{{ "[%s + %du][(%s_i_%d / 4u) ^ (%s_k_%d & 4u)]" % (step_of(op, s), c, op.x, s, op.x, s) if op.swizzle else "[%s + %du][%s_i_%d / 4u]" % (step_of(op, s), c, op.x, s) if op.k_major else "[%s_i_%d + %du][%s / 4u]" % (op.x, s, c, step_of(op, s)) }}{% endmacro %}
