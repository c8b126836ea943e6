requires packed_4x8_integer_dot_product;

// int8 GEMM, one invocation for each element of C: the definition
// C[i][j] = (Σ A[i][k]·B[j][k]) · scale_a[i] · scale_b[j], read straight from memory, four int8 a
// word. It is here to be understood and to be measured against, not to be fast.
//
//   workgroup_x  invocations along N, e.g. 16
//   workgroup_y  invocations along M, e.g. 16
{% from "lib/each_element.wgsl" import each_element %}

{% include "lib/sizes.wgsl" %}

{% include "gemm_i8/operands.wgsl" %}

{% include "lib/grid.wgsl" %}

{% call each_element(workgroup_x, workgroup_y, false) %}
    let words = sizes.k / 4u;
    var sum = 0i;
    for (var k = 0u; k < words; k += 1u) {
        sum += dot4I8Packed(a[row * words + k], b[col * words + k]);
    }
    c[row * sizes.n + col] = f32(sum) * scale_a[row] * scale_b[col];
{% endcall %}
