//# if f16
enable f16;

//# endif
// GEMM through workgroup memory: each workgroup computes one TILE×TILE block of C, one invocation an
// element. It walks along K tile by tile; every value read from memory is used TILE times.
// (Tiling for a cache: Lam, Rothberg and Wolf, "The cache performance and optimizations of blocked
// algorithms", ASPLOS 1991.)
//
//         K                N                N
//     ┌───┬───┐        ┌───┬───┐        ┌───┬───┐
//   M │   │ A │  ×   K │   │ B │  =   M │   │ C │
//     └───┴───┘        └───┴───┘        └───┴───┘
//
//   tile  edge of the block, e.g. 16: TILE² invocations and 2·TILE² elements of workgroup memory

{% include "lib/sizes.wgsl" %}

{% include "lib/gemm_operands.wgsl" %}

{% include "lib/gemm_store.wgsl" %}

{% include "lib/grid.wgsl" %}

const TILE = {{ tile }}u;

var<workgroup> tile_a: array<array<Stored, TILE>, TILE>;
var<workgroup> tile_b: array<array<Stored, TILE>, TILE>;

@compute @workgroup_size({{ tile }}, {{ tile }})
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let tiles_m = (sizes.m + TILE - 1u) / TILE;
    let tiles_n = (sizes.n + TILE - 1u) / TILE;
    let id = linear_workgroup(workgroup, grid);
    let block = id % (tiles_m * tiles_n);
    let entry = id / (tiles_m * tiles_n);  // of the batch
    if (entry >= {{ "sizes.batch" if batched else "1u" }}) { return; }  // the whole workgroup leaves together
    let row = block / tiles_n * TILE + local.y;
    let col = block % tiles_n * TILE + local.x;
    let a_start = {{ a_start }};
    let b_start = {{ b_start }};

    // Rows and columns past the edge read the last one instead; their sums are never stored.
    let row_read = min(row, sizes.m - 1u);
    let col_read = min(col, sizes.n - 1u);

    var sum = Sum();
    for (var k0 = 0u; k0 < sizes.k; k0 += TILE) {
        // Along K, zeros past the end leave the sum as it is.
        let k_a = k0 + local.x;
        let k_b = k0 + local.y;
        tile_a[local.y][local.x] = Stored();
        tile_b[local.y][local.x] = Stored();
        if (k_a < sizes.k) { tile_a[local.y][local.x] = a[a_start + {{ "k_a * %s + row_read" % lda if transpose_a else "row_read * %s + k_a" % lda }}]; }
        if (k_b < sizes.k) { tile_b[local.y][local.x] = b[b_start + {{ "col_read * %s + k_b" % ldb if transpose_b else "k_b * %s + col_read" % ldb }}]; }
        workgroupBarrier();
        for (var k = 0u; k < TILE; k += 1u) {
            sum += Sum(tile_a[local.y][k]) * Sum(tile_b[k][local.x]);
        }
        workgroupBarrier();
    }
    if (row < sizes.m && col < sizes.n) { put(c_start(0u, entry), row, col, sum); }
}
