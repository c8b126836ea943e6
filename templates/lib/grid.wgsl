// Position of this workgroup in a grid of one dimension. The host spreads the count over x and y,
// because a single dimension ends at 65,535 workgroups.
fn linear_workgroup(id: vec3<u32>, grid: vec3<u32>) -> u32 {
    return id.y * grid.x + id.x;
}
