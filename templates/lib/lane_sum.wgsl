{#-
Adds up the variable `sum`, of type `kind`, over the `lanes` (a power of two) invocations of a workgroup that
share a place local.x and differ in local.y. Afterwards those with local.y == 0 hold the result. It needs the
workgroup array `partial` of [lanes][places], which may be used again after another barrier.

  how     "tree": through workgroup memory, halving the lanes at each step;
          "subgroup": lanes of a subgroup swap first, in pairs, then in pairs of pairs, until each block of
          `lanes`, or each subgroup where that is smaller, has its sum; then blocks come together in workgroup
          memory. Right for any `subgroup_size` (128 at most), which is read when the kernel runs
  stride  invocations from a lane to the next: 1, or a power of two places where those lie closer

The exchange takes neighbours in a workgroup to be neighbours in a subgroup, as drivers lay them out. WGSL does
not promise it, but where it did not hold, results would be wrong and the candidate refused.
-#}
{% from "lib/tree_sum.wgsl" import tree_sum %}
{% macro lane_sum(kind, lanes, stride, how) %}
//# if how == "subgroup"
//# set step = namespace(mask=stride)
//# for _ in range(10)
//# if step.mask < [lanes * stride, 128] | min
    sum += select({{ kind }}(), subgroupShuffleXor(sum, {{ step.mask }}u), subgroup_size > {{ step.mask }}u);
//# set step.mask = step.mask * 2
//# endif
//# endfor
    let together = clamp(subgroup_size / {{ stride }}u, 1u, {{ lanes }}u);  // lanes that have the sum of a block
    if (local.y % together == 0u) { partial[local.y / together][local.x] = sum; }
    workgroupBarrier();
    if (local.y == 0u) {
        for (var block = 1u; block < {{ lanes }}u / together; block += 1u) { sum += partial[block][local.x]; }
    }
//# else
    partial[local.y][local.x] = sum;
    workgroupBarrier();
{{ tree_sum("partial", lanes) }}
    sum = partial[0][local.x];
//# endif
{% endmacro %}
