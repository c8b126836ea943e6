// sum + x·y
fn add_dot(sum: Sum, x: vec4<Sum>, y: vec4<Sum>) -> Sum {
    return fma(x.x, y.x, fma(x.y, y.y, fma(x.z, y.z, fma(x.w, y.w, sum))));
}
