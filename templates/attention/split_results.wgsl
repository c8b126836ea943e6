{#- What a split of the keys leaves for each of its rows: O not yet divided, the largest score m and the sum l. -#}
@group(0) @binding(9) var<storage, read_write> sums: array<vec4<f32>>;  // [split][entry][head][query][column / 4]
@group(0) @binding(10) var<storage, read_write> peaks: array<vec2<f32>>;  // [split][entry][head][query] of (m, l)
