//# if f16
enable f16;

//# endif
// GEMM with weights in 4 bits, one invocation for each element of C: C[i][j] = Σ A[i][k]·W[k][j], a word
// of eight codes at a time. It is here to be understood and to be measured against, not to be fast.
//
//   workgroup_x  invocations along N, e.g. 16
//   workgroup_y  invocations along M, e.g. 16
{% from "lib/each_element.wgsl" import each_element %}

{% include "lib/sizes.wgsl" %}

{% include "gemm_q4/operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

{% call each_element(workgroup_x, workgroup_y, false) %}
    var sum = Sum();
    for (var k = 0u; k < sizes.k; k += 8u) {
        let word = weights[(col * sizes.k + k) / 8u];
        let quad = (row * sizes.k + k) / 4u;
        let low = dot(vec4<Sum>(a[quad]), four_weights(word));
        let high = dot(vec4<Sum>(a[quad + 1u]), four_weights(word >> 16u));
        sum += (low + high) * Sum(scales[col * (sizes.k / GROUP) + k / GROUP]);
    }
    put(0u, row, col, sum);
{% endcall %}
