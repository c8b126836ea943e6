{#- Adds rows 1 to count−1 of a workgroup array [row][lane] onto row 0, halving the rows at each step. -#}
{% macro tree_sum(array, count) %}
//# set at = namespace(rows=count // 2)
//# for _ in range(10)
//# if at.rows >= 1
    if (local.y < {{ at.rows }}u) { {{ array }}[local.y][local.x] += {{ array }}[local.y + {{ at.rows }}u][local.x]; }
    workgroupBarrier();
//# set at.rows = at.rows // 2
//# endif
//# endfor
{% endmacro %}
