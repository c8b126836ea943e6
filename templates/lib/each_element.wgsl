{#-
The main function of a naive kernel: one invocation for each element of C, workgroup_x of them along N and
workgroup_y along M. The block that it is called with finds `row` and `col`, both inside C, and where there
are batches the `entry`.
-#}
{% macro each_element(workgroup_x, workgroup_y, batched) %}
const WORKGROUP_X = {{ workgroup_x }}u;
const WORKGROUP_Y = {{ workgroup_y }}u;

@compute @workgroup_size({{ workgroup_x }}, {{ workgroup_y }})
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let tiles_n = (sizes.n + WORKGROUP_X - 1u) / WORKGROUP_X;
//# if batched
    let tiles_m = (sizes.m + WORKGROUP_Y - 1u) / WORKGROUP_Y;
    let id = linear_workgroup(workgroup, grid);
    let tile = id % (tiles_m * tiles_n);
    let entry = id / (tiles_m * tiles_n);  // of the batch
    if (entry >= sizes.batch) { return; }
//# else
    let tile = linear_workgroup(workgroup, grid);
//# endif
    let row = tile / tiles_n * WORKGROUP_Y + local.y;
    let col = tile % tiles_n * WORKGROUP_X + local.x;
    if (row >= sizes.m || col >= sizes.n) { return; }

{{ caller() }}
}
{% endmacro %}
