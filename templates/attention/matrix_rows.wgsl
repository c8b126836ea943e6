{#-
Rows of fragments, for flash_subgroup_matrix.wgsl. A lane has a row in each of `turns` turns, and shares it with
`row_lanes` neighbours: vec4 j of a row is the lane's if j % row_lanes is its `part`.
-#}

{#- `name` added up over, or its largest of, the lanes of a row; all of them get it. -#}
{% macro exchange(name, how) %}
//# set step = namespace(mask=1)
//# for _ in range(7)
//# if step.mask < row_lanes
        {{ name }} = {{ "max(%s, subgroupShuffleXor(%s, %du))" % (name, name, step.mask) if how == "max" else "%s + subgroupShuffleXor(%s, %du)" % (name, name, step.mask) }};
//# set step.mask = step.mask * 2
//# endif
//# endfor
{% endmacro %}
{#-
O's fragments through strip_s, as many columns at a time as fit. The caller says what becomes of each vec4: its
turn, its first column and its place in strip_s. With `reload` the strip's contents become the fragments.
-#}
{% macro through_strip(reload) %}
//# for first in range(0, cols_o, strip_cols // n)
//# set some = [strip_cols // n, cols_o - first] | min
{{ "            workgroupBarrier();" if first }}
//# for r in range(blocks)
//# for c in range(some)
            subgroupMatrixStore<row_major>(&strip_s, (strip + {{ r * m }}u) * PITCH_S + {{ c * n // 4 }}u, o_{{ r }}_{{ first + c }}, PITCH_S);
//# endfor
//# endfor
            workgroupBarrier();
//# for t in range(turns)
//# for j in range(0, some * n // 4, row_lanes)
//# set column = "part + %du" % j if j else "part"
{{ "            if (%s < %du) {" % (column, some * n // 4) if j + row_lanes > some * n // 4 else "            {" }}
{{ caller(t, "(%s) * 4u" % column if not first else "(%s) * 4u + %du" % (column, first * n), "(row + %du * BESIDE) * PITCH_S + %s" % (t, column)) }}
            }
//# endfor
//# endfor
//# if reload
            workgroupBarrier();
//# for r in range(blocks)
//# for c in range(some)
            o_{{ r }}_{{ first + c }} = subgroupMatrixLoad<Sums, row_major>(&strip_s, (strip + {{ r * m }}u) * PITCH_S + {{ c * n // 4 }}u, PITCH_S);
//# endfor
//# endfor
//# endif
//# endfor
{% endmacro %}
