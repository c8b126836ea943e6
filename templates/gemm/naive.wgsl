//# if f16
enable f16;

//# endif
// GEMM, one invocation for each element of C: the definition C[i][j] = Σ A[i][k]·B[k][j], read
// straight from memory. It is here to be understood and to be measured against, not to be fast.
//
//   workgroup_x  invocations along N, e.g. 16
//   workgroup_y  invocations along M, e.g. 16
{% from "lib/each_element.wgsl" import each_element %}

{% include "lib/sizes.wgsl" %}

{% include "lib/gemm_operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

{% call each_element(workgroup_x, workgroup_y, batched) %}
    let a_start = {{ a_start }};
    let b_start = {{ b_start }};
    var sum = Sum();
    for (var k = 0u; k < sizes.k; k += 1u) {
        sum += Sum(a[a_start + {{ "k * %s + row" % lda if transpose_a else "row * %s + k" % lda }}]) * Sum(b[b_start + {{ "col * %s + k" % ldb if transpose_b else "k * %s + col" % ldb }}]);
    }
    put(c_start(0u, {{ "entry" if batched else "0u" }}), row, col, sum);
{% endcall %}
