{#-
Adds up the variable `name`, of type `kind`, over blocks of `lanes` neighbouring invocations (a power of two),
by exchange within a subgroup: pairs swap, then pairs of pairs, until a block holds its sum in every lane, or a
subgroup, where that is smaller than a block. So it is right for any `subgroup_size`, which it reads.

It takes neighbours in a workgroup to be neighbours in a subgroup, as drivers lay them out. WGSL does not
promise it, but a candidate for which it does not hold gives wrong results and is refused.
-#}
{% macro subgroup_sum(name, kind, lanes) %}
//# set step = namespace(mask=1)
//# for _ in range(10)
//# if step.mask < lanes
    {{ name }} += select({{ kind }}(), subgroupShuffleXor({{ name }}, {{ step.mask }}u), subgroup_size > {{ step.mask }}u);
//# set step.mask = step.mask * 2
//# endif
//# endfor
{% endmacro %}
